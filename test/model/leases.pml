/*
 * The life of a lease of a plain lock on three instances, in time: extensions with another ttl, a
 * process that adopts the lease of another one, and commands that are executed late, after their
 * client has given up their connection. `check` (beside this file) runs the searches.
 *
 * An instance has the key with a token, or nobody, and the time that is left until it expires. Its
 * commands:
 *
 *   acquire   nobody has the key: it is ours, for the ttl
 *   extend    the token is ours: at least the ttl is left from now on
 *   release   the token is ours: nobody has the key
 *
 * The lease has a token that goes from process to process. Its rounds follow each other: an
 * acquire, then extensions with any ttl, by its holder or by a process that adopts it. A round
 * counts when a quorum has said yes to it, in time, and its holder believes for the ttl from the
 * moment in which it was sent. A shorter ttl counts when it is sent. A holder that detaches
 * believes no more, and sends nothing. Beside it are tenures of a rival, one after the other,
 * each with a token of its own: an acquire, and a release.
 *
 * Time passes by ticks, in which all that is left grows shorter, and all that was sent grows older.
 * All clocks run alike: the drift is only a margin.
 *
 * Property (assertion in `check_alone`)
 *   M  no two believe at once
 *
 * The environment: a command comes at any later time or never, whatever was sent after it. So an
 * extension comes after a later one, after the adoption and after the release, and an acquire after
 * the release of its own tenure. A reply of a round that has ended is of no use. Everybody may stop
 * at any moment.
 *
 * Left out: fences (fence.pml); healing, restarts, and the guards against them, which are the
 * simulation's (test/simulation/guards). A command that would be refused has no step. Instances are
 * alike: after each step they are put into an order, so that their numbers change in a trail.
 *
 * Broken on purpose; each must be refuted
 *   SHORTENS       an extension with a shorter ttl shortens the life of the key
 *   STALE_YES      a yes counts for a later round
 *   FROM_REPLY     the holder believes for the ttl from the moment in which the round counts
 *   BELIEVES_ON    a holder that has detached believes on
 *   GIVES_BACK     a holder that has detached sends a release
 *   ADOPTS_ONE     an adoption counts with one yes
 *   REUSES         the second tenure of a rival has the token of the first
 *   QUORUM=1
 * Broken, and yet M holds
 *   NOT_AT_ONCE    a shorter ttl counts only with its round: no extension shortens a life
 * Not vacuous; each must be refuted
 *   NEVER_LONGER   no extension counts
 *   NEVER_ADOPTED  no adoption counts
 *   NEVER_RIVAL    no rival has the lock after the lease
 *   NEVER_LATE     no extension comes after a later round was sent
 *   NEVER_AFTER    no command of a round comes after the release was sent
 */
#ifndef ROUNDS
#define ROUNDS 3
#endif
#ifndef RIVALS
#define RIVALS 1
#endif
#ifndef QUORUM
#define QUORUM 2
#endif
#ifndef LONGEST
#define LONGEST 2 /* ttl */
#endif
#define INSTANCES 3

#if ROUNDS > 4 || RIVALS > 2 || LONGEST > 3
#error the commands, init and the shapes know of no more
#endif

#define NOBODY 0
#define OURS 1
#ifdef REUSES
#define TOKEN(t) 2
#else
#define TOKEN(t) ((t) + 2)
#endif

/* The commands of rounds that are under way, as bits; for the release one more. */
#define BIT(r) (1 << (r))
#define RELEASE ROUNDS

/* A rival's tenure and an instance. */
#define AT(t, i) at[(t) * INSTANCES + (i)]
#define ACQUIRE 1 /* under way */
#define GRANTED 2
#define GIVE_UP 4 /* the release is under way */

/* Who has the token. */
#define FIRST 0
#define DETACHED 1
#define ADOPTER 2
#define GONE 3

byte key[INSTANCES];
byte left[INSTANCES];
byte flying[INSTANCES];
byte yes[INSTANCES]; /* to the last round; with STALE_YES to any */
byte at[RIVALS * INSTANCES];

byte rounds;      /* that were sent */
byte ttl[4];
byte age;         /* of the last one */
bool counted;     /* the last one */
byte who;
byte belief;      /* for so long the holder believes */
byte old_belief;  /* BELIEVES_ON: of the first holder */
byte before;      /* the adopter's belief counts from its own round */

byte begun;       /* tenures of rivals */
byte rival_ttl[RIVALS];
byte rival_age[RIVALS];
byte rival_belief[RIVALS];
bool rival_over[RIVALS];
#ifdef NEVER_RIVAL
bool won;
#endif

hidden byte j;
hidden byte k;
hidden byte x;
hidden int spare;
hidden int shape[INSTANCES];

/* --- the same state in fewer shapes --- */

inline swap(a, b) {
	x = key[a]; key[a] = key[b]; key[b] = x;
	x = left[a]; left[a] = left[b]; left[b] = x;
	x = flying[a]; flying[a] = flying[b]; flying[b] = x;
	x = yes[a]; yes[a] = yes[b]; yes[b] = x;
	for (k : 0 .. RIVALS - 1) {
		x = AT(k, a); AT(k, a) = AT(k, b); AT(k, b) = x
	}
}
inline order(a, b) {
	if
	:: shape[a] > shape[b] ->
		spare = shape[a]; shape[a] = shape[b]; shape[b] = spare;
		swap(a, b)
	:: else
	fi
}

/* Ends every step. */
inline tidy() {
	for (j : 0 .. INSTANCES - 1) {
		if
		:: counted || who == GONE || age >= LONGEST -> yes[j] = 0
		:: else
		fi;
		shape[j] = ((key[j] * 4 + left[j]) * 32 + flying[j]) * 2 + yes[j];
		for (k : 0 .. RIVALS - 1) {
			if /* The grants are of no more use. */
			:: rival_over[k] || rival_age[k] >= LONGEST -> AT(k, j) = AT(k, j) & ~GRANTED
			:: else
			fi;
			shape[j] = shape[j] * 8 + AT(k, j)
		}
	}
	order(0, 1);
	order(1, 2);
	order(0, 1);
	j = 0; k = 0; x = 0; spare = 0
}

inline check_alone() {
	x = (belief > 0) + (old_belief > 0);
	for (j : 0 .. RIVALS - 1) {
		x = x + (rival_belief[j] > 0)
	}
	assert(x <= 1) /* M */
}

/* --- the lease --- */

#define SAID_YES (yes[0] + yes[1] + yes[2])
#ifdef ADOPTS_ONE
#define ENOUGH (who == ADOPTER && before == 0 -> 1 : QUORUM)
#else
#define ENOUGH QUORUM
#endif
#ifdef FROM_REPLY
#define BELIEVES_FOR (ttl[rounds - 1])
#else
#define BELIEVES_FOR (ttl[rounds - 1] - age)
#endif

inline send(length) {
	printf("round %d is sent, for %d\n", rounds, length);
	for (j : 0 .. INSTANCES - 1) {
		flying[j] = flying[j] | BIT(rounds);
#ifndef STALE_YES
		yes[j] = 0
#endif
	}
	ttl[rounds] = length;
	rounds++;
	age = 0;
	counted = false;
#ifndef NOT_AT_ONCE
	if
	:: belief > length -> belief = length
	:: else
	fi
#endif
}
inline count() {
	printf("round %d counts\n", rounds - 1);
#ifdef NEVER_LONGER
	assert(rounds == 1 || who != FIRST);
#endif
#ifdef NEVER_ADOPTED
	assert(who != ADOPTER);
#endif
	counted = true;
	before = 1;
	if
	:: BELIEVES_FOR > belief -> belief = BELIEVES_FOR
	:: else
	fi;
	check_alone()
}

/* --- the instance --- */

inline execute(r, i) {
	printf("round %d at instance %d\n", r, i);
#ifdef NEVER_AFTER
	assert(who != GONE);
#endif
	flying[i] = flying[i] & ~BIT(r);
	if
	:: r == 0 -> key[i] = OURS; left[i] = ttl[0]
	:: else ->
#ifdef NEVER_LATE
		assert(r == rounds - 1);
#endif
#ifdef SHORTENS
		left[i] = ttl[r]
#else
		if
		:: ttl[r] > left[i] -> left[i] = ttl[r]
		:: else
		fi
#endif
	fi;
#ifdef STALE_YES
	yes[i] = 1
#else
	if
	:: r == rounds - 1 -> yes[i] = 1
	:: else
	fi
#endif
}

#define WITH_INSTANCE(i) \
	:: d_step { (flying[i] & BIT(0)) && key[i] == NOBODY -> execute(0, i); tidy() } \
	:: d_step { (flying[i] & BIT(1)) && ROUNDS > 1 && key[i] == OURS -> execute(1, i); tidy() } \
	:: d_step { (flying[i] & BIT(2)) && ROUNDS > 2 && key[i] == OURS -> execute(2, i); tidy() } \
	:: d_step { (flying[i] & BIT(3)) && ROUNDS > 3 && key[i] == OURS -> execute(3, i); tidy() } \
	:: d_step { \
		(flying[i] & BIT(RELEASE)) && key[i] == OURS -> \
		printf("released at instance %d\n", i); \
		flying[i] = flying[i] & ~BIT(RELEASE); \
		key[i] = NOBODY; \
		left[i] = 0; \
		tidy() \
	}

#define MAY_SEND \
	(rounds < ROUNDS && (who == FIRST || who == ADOPTER) && (rounds == 0 || belief > 0))

active proctype holder() {
end:
	do
	:: d_step { MAY_SEND -> send(1); tidy() }
	:: d_step { MAY_SEND -> send(LONGEST); tidy() }
	:: d_step {
		!counted && rounds > 0 && SAID_YES >= ENOUGH && age < ttl[rounds - 1] &&
			(rounds == 1 || belief > 0 || who == ADOPTER && before == 0) ->
		count();
		tidy()
	}
	:: d_step {
		who == FIRST && belief > 0 && rounds < ROUNDS ->
		printf("the holder detaches\n");
		who = DETACHED;
#ifdef BELIEVES_ON
		old_belief = belief;
#endif
		belief = 0;
		before = 0;
		counted = true;
#ifdef GIVES_BACK
		for (j : 0 .. INSTANCES - 1) {
			flying[j] = flying[j] | BIT(RELEASE)
		}
#endif
		tidy()
	}
	:: d_step { who == DETACHED -> who = ADOPTER; send(1); tidy() }
	:: d_step { who == DETACHED -> who = ADOPTER; send(LONGEST); tidy() }
	:: d_step {
		(who == FIRST && rounds > 0 || who == ADOPTER) ->
		printf("the holder releases\n");
		who = GONE;
		belief = 0;
		for (j : 0 .. INSTANCES - 1) {
			flying[j] = flying[j] | BIT(RELEASE)
		}
		tidy()
	}
	WITH_INSTANCE(0)
	WITH_INSTANCE(1)
	WITH_INSTANCE(2)
	od
}

/* --- rivals --- */

#define GRANTS(t) \
	(((AT(t, 0) & GRANTED) + (AT(t, 1) & GRANTED) + (AT(t, 2) & GRANTED)) / GRANTED)

inline begin(t, length) {
	printf("rival %d asks, for %d\n", t, length);
	begun++;
	rival_ttl[t] = length;
	for (j : 0 .. INSTANCES - 1) {
		AT(t, j) = ACQUIRE
	}
}

#define RIVAL_AT(t, i) \
	:: d_step { \
		(AT(t, i) & ACQUIRE) && key[i] == NOBODY -> \
		printf("instance %d grants to rival %d\n", i, t); \
		key[i] = TOKEN(t); \
		left[i] = rival_ttl[t]; \
		AT(t, i) = (AT(t, i) & ~ACQUIRE) | GRANTED; \
		tidy() \
	} \
	:: d_step { \
		(AT(t, i) & GIVE_UP) && key[i] == TOKEN(t) -> \
		printf("rival %d is released at instance %d\n", t, i); \
		AT(t, i) = AT(t, i) & ~GIVE_UP; \
		key[i] = NOBODY; \
		left[i] = 0; \
		tidy() \
	}

/* One process has one tenure after the other. */
proctype rival(byte t) {
end:
	do
	:: d_step { begun == t && (t == 0 || rival_over[t - 1]) -> begin(t, 1); tidy() }
	:: d_step { begun == t && (t == 0 || rival_over[t - 1]) -> begin(t, LONGEST); tidy() }
	:: d_step {
		begun > t && !rival_over[t] && rival_belief[t] == 0 && GRANTS(t) >= QUORUM &&
			rival_age[t] < rival_ttl[t] ->
		printf("rival %d is won\n", t);
#ifdef NEVER_RIVAL
		assert(!counted || who != GONE);
#endif
		rival_belief[t] = rival_ttl[t] - rival_age[t];
		check_alone();
		tidy()
	}
	:: d_step {
		begun > t && !rival_over[t] ->
		printf("rival %d ends\n", t);
		rival_over[t] = true;
		rival_belief[t] = 0;
		for (j : 0 .. INSTANCES - 1) {
			AT(t, j) = AT(t, j) | GIVE_UP
		}
		tidy()
	}
	RIVAL_AT(t, 0)
	RIVAL_AT(t, 1)
	RIVAL_AT(t, 2)
	od
}

/* --- time --- */

#define LESS(a) if :: a > 0 -> a-- :: else fi

active proctype clock() {
end:
	do
	:: d_step {
		for (j : 0 .. INSTANCES - 1) {
			LESS(left[j]);
			if
			:: left[j] == 0 -> key[j] = NOBODY
			:: else
			fi
		}
		LESS(belief);
		LESS(old_belief);
		if
		:: rounds > 0 && age < LONGEST -> age++
		:: else
		fi;
		for (k : 0 .. RIVALS - 1) {
			LESS(rival_belief[k]);
			if
			:: begun > k && rival_age[k] < LONGEST -> rival_age[k]++
			:: else
			fi
		}
		tidy()
	}
	od
}

init {
	atomic {
		run rival(0)
#if RIVALS > 1
		;
		run rival(1)
#endif
	}
}
