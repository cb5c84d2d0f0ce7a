/*
 * The fences of a lock that is kept on three instances, and its mutual exclusion. `check` (beside
 * this file) runs the searches; this page describes the model.
 *
 * An instance has the key (`holder`, a token or nobody) and a counter (`fence`) that outlives it. A
 * tenure is one attempt to own the key, with a token of its own:
 *
 *   grant    if nobody holds the key: it is ours, fence = max(fence + 1, hint), and that number is
 *            the reply
 *   count    with NATIVE, or a grant: the key is taken in one step, and in a later one
 *            fence = hint if it was smaller. If it was not, a grant follows if the key is still
 *            ours. Who does not get the key counts as well
 *   T        the greatest number granted so far, once a quorum has granted
 *   raise    to each granted instance with a smaller number: if the key is ours, fence = T if it
 *            was smaller. If it was not, the grant counts no more
 *   success  when a quorum holds T: it granted exactly T, or said yes to a raise to T. T is the
 *            tenure's fence
 *   late     a grant after that: greater than T makes T that number, and all others are raised
 *            anew; equal counts; smaller is raised
 *
 * Properties (assertions in `succeed`)
 *   U  no two tenures succeed with the same fence
 *   O  a tenure that began when another had succeeded gets a greater fence than that one
 *   M  with TIMELY: no two tenures believe at once that they own the key
 *
 * The environment
 *   - A command or a reply may be late or lost. Every step below may come at any later time, or
 *     never, and nothing waits for it: never is lost. An instance that is down is one whose
 *     messages are lost.
 *   - A client may crash: none of its steps comes any more, except those of its commands that are
 *     under way.
 *   - A key may expire at any moment, also while its owner believes in it. With TIMELY it expires
 *     only when its tenure's deadline has passed, before which a tenure stops believing.
 *   - A tenure may fail or be given up at any moment, and be released or not. A release deletes the
 *     key if the token is ours; without TIMELY that is one more expiry, so nothing here stands for
 *     it. With TIMELY it is a step of its own, and so is giving up.
 *   - A hint is any number (1 .. HINTS, the same for all instances): clocks may show anything. 1 is
 *     as good as no hint, since counters are at least 1 after their first grant. Counters may start
 *     different (START).
 *
 * Left out, and why nothing is lost by it
 *   - A command that would be refused (somebody has the key; it is not, or no longer, ours to
 *     raise) has no step. All that a no can do is to end the attempt, as a lost command does, and
 *     that may happen anyway. A raise that can never be said yes to is taken out of the way at
 *     once.
 *   - A client takes no notice of grants before they make a quorum: nobody could tell.
 *   - A connection keeps the order of a tenure's commands: the grant comes first, then raises, then
 *     the release. A raise that is under way when T rises is replaced by the new one. Whatever it
 *     would do later it may as well do just before T rises: it makes the counter no greater than
 *     the new one does.
 *   - A tenure that has failed or succeeded forgets what it has learnt. Its messages under way
 *     still arrive.
 *   - Tenures are alike, so they begin in the order of their numbers. The clients behind them do
 *     not matter, so with CLIENTS == TENURES (the default) this covers every way to share them
 *     among clients. With fewer CLIENTS a client has one tenure after the other on the same
 *     connections, and the new one's grant comes after all that is left of the old one: fewer runs,
 *     which allows for more tenures.
 *   - State on which no assertion can depend any more is set to one value (`tidy`).
 *   - FOLD (not with TIMELY): a key expires in the moment in which somebody else is granted it. An
 *     earlier expiry changes nothing but that a raise fails, which then is as well lost.
 *   - SYMMETRY: instances are alike; after each step they are put into an order. Their numbers then
 *     change in the course of a trail.
 * Not modelled: extensions, and the keys that they put back. They change no counter, so U and O do
 * not depend on them; M is shown for tenures that are not extended. Bounds: three instances,
 * TENURES, HINTS, START.
 *
 * Broken on purpose; each must be refuted
 *   MAX_ALONE            no raise: success with the quorum's greatest number at once
 *   LIFTS_NOTHING        a raise succeeds where the fence is T already, or greater: with NATIVE,
 *                        or with RAISE_UNCONDITIONAL, where a raise does not look at the token.
 *                        Neither alone does harm to U and O
 *   LATE_COUNTS          a late grant greater than T counts as holding T
 *   STALE_YES            a yes to a raise to a smaller T goes on counting when T has risen
 *   QUORUM=1             with TIMELY
 *   FORGET_ONE           one instance loses its counter, once: two quorums may have but that one in
 *                        common
 * and with FORGET_ONE TRUE_CLOCK, where hints come from one true clock: O holds (ONLY_ORDER asserts
 * it alone), U does not. Since O holds, only tenures that were acquiring at the same time can get
 * the same fence, and it takes three: two that were late count on from the number of the third.
 *
 * Not vacuous; each must be refuted
 *   NEVER_THREE   three tenures never succeed
 *   NEVER_RAISED  no tenure succeeds by a raise
 *   NEVER_LATE    no tenure succeeds after a late grant made T rise
 */
#ifndef TENURES
#define TENURES 3
#endif
#ifndef CLIENTS
#define CLIENTS TENURES
#endif
#ifndef QUORUM
#define QUORUM 2
#endif
#ifndef HINTS
#define HINTS 1
#endif
#ifndef START
#define START 0
#endif
#define INSTANCES 3

#if defined(TIMELY) && defined(FOLD)
#error with TIMELY it matters when a key expires
#endif
#if TENURES < 2 || TENURES > 4
#error init and tidy know of 2 to 4 tenures
#endif

#define NOBODY 0
#define TOKEN(t) ((t) + 1)
#define SOMEBODY TOKEN(TENURES)
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define MAX(a, b) ((a) > (b) -> (a) : (b))

/* A tenure and an instance. */
#define AT(t, i) at[(t) * INSTANCES + (i)]
#define VAL(t, i) val[(t) * INSTANCES + (i)]
#define SENT 0    /* the acquire is under way, once the tenure has begun */
#define GRANTED 1 /* the grant of VAL is on its way back */
#define KNOWN 2   /* VAL was granted; there is no quorum yet */
#define RAISE 3   /* a raise to VAL is under way */
#define RAISED 4  /* its yes is on its way back */
#define HOLDS 5   /* counts as holding T */
#define OUT 6     /* nothing more will come of it */
#define SET 7     /* the key is taken, and the count is under way */
#define AGAIN 8   /* that has failed, and a grant is under way for the key that is ours */
#define UNDER_WAY(t, i) \
	(AT(t, i) == SENT || AT(t, i) == SET || AT(t, i) == AGAIN || AT(t, i) == RAISE)
#define USES_HINT(t, i) (AT(t, i) == SENT || AT(t, i) == SET || AT(t, i) == AGAIN)

/* A tenure. */
#define IDLE 0
#define ASKING 1
#define RAISING 2
#define OVER 3

/* With TIMELY, what a tenure believes. */
#define NOT_YET 0
#define BELIEVED 1
#define RELEASING 2
#define PASSED 3 /* the deadline */

byte holder[INSTANCES];
byte fence[INSTANCES];

byte phase[TENURES];
byte hint[TENURES];
byte top[TENURES]; /* T */
byte at[TENURES * INSTANCES];
byte val[TENURES * INSTANCES];

/* What the properties need to know. */
byte completed;      /* the greatest fence with which a tenure has succeeded, */
byte floor[TENURES]; /* and when this one began */
short issued;        /* the set of fences */

#ifdef TIMELY
byte lease[TENURES];
#endif
#ifdef TRUE_CLOCK
byte clock; /* never behind a number that was ever given */
#endif
#ifdef NEVER_THREE
byte successes;
#endif
#ifdef NEVER_LATE
bool risen[TENURES];
#endif

/* Of use within one step only, and no part of a state. */
hidden byte j;
hidden byte k;
hidden byte n;
hidden byte x;
hidden int spare;
hidden int key[INSTANCES];

/* --- the same state in fewer shapes --- */

inline swap(a, b) {
	x = holder[a]; holder[a] = holder[b]; holder[b] = x;
	x = fence[a]; fence[a] = fence[b]; fence[b] = x;
	for (k : 0 .. TENURES - 1) {
		x = AT(k, a); AT(k, a) = AT(k, b); AT(k, b) = x;
		x = VAL(k, a); VAL(k, a) = VAL(k, b); VAL(k, b) = x
	}
}

inline order(a, b) {
	if
	:: key[a] > key[b] ->
		spare = key[a]; key[a] = key[b]; key[b] = spare;
		swap(a, b)
	:: else
	fi
}

/* The tenure has succeeded or failed. */
inline finish(t) {
	phase[t] = OVER;
	top[t] = 0;
	floor[t] = 0;
	for (j : 0 .. INSTANCES - 1) {
		if
		:: UNDER_WAY(t, j)
		:: else -> AT(t, j) = OUT; VAL(t, j) = 0
		fi
	}
}

inline fail(t) {
	printf("tenure %d fails\n", t);
	finish(t)
}

/* Nothing more comes of this instance, and perhaps so of the tenure. */
inline out(t, i) {
	AT(t, i) = OUT;
	VAL(t, i) = 0;
	n = 0;
	for (j : 0 .. INSTANCES - 1) {
		if
		:: AT(t, j) == OUT -> n++
		:: else
		fi
	}
	if
	:: n > INSTANCES - QUORUM && phase[t] != OVER -> fail(t)
	:: else
	fi
}

/* Ends every step: forgets what no assertion can depend on any more. */
inline tidy() {
	n = 0; /* how many may still succeed, */
	x = 15; /* and what their fences must be greater than */
	k = 0;
	do
	:: k == TENURES -> break
	:: k < TENURES && phase[k] == IDLE -> n = n + 1 + TENURES; x = MIN(x, completed); k++
	:: k < TENURES && phase[k] == OVER -> k++
	:: else -> n++; x = MIN(x, floor[k]); k++
	od;
	issued = (issued >> (x + 1)) << (x + 1); /* the others would break O before U */
	if
	:: n <= TENURES -> completed = 0 /* all have begun */
	:: else
	fi;
	if
	:: n == 0 -> /* Nobody is left to succeed. */
		for (j : 0 .. INSTANCES - 1) {
			holder[j] = NOBODY;
			fence[j] = 0;
			for (k : 0 .. TENURES - 1) {
				AT(k, j) = OUT;
				VAL(k, j) = 0;
				hint[k] = 0
			}
		}
	:: else
	fi;
#ifndef TIMELY
	for (j : 0 .. INSTANCES - 1) {
		if /* It does not matter any more whose the key is. */
		:: holder[j] != NOBODY && holder[j] != SOMEBODY && at[(holder[j] - 1) * INSTANCES + j] == OUT ->
#ifdef FOLD
			holder[j] = NOBODY
#else
			holder[j] = SOMEBODY
#endif
		:: else
		fi
	}
#endif
#ifdef SYMMETRY
	/* The key need not tell all instances apart. If it does not, a state has several shapes. */
	for (j : 0 .. INSTANCES - 1) {
		key[j] = fence[j] * 8 + holder[j];
		for (k : 0 .. TENURES - 1) {
			key[j] = key[j] * 16 + AT(k, j)
		}
		key[j] = key[j] * 16 + VAL(0, j);
#if TENURES < 4
		key[j] = key[j] * 16 + VAL(1, j)
#endif
	}
	order(0, 1);
	order(1, 2);
	order(0, 1);
#endif
	j = 0; k = 0; n = 0; x = 0; spare = 0
}

/* --- the client --- */

inline begin(t, h) {
	printf("tenure %d begins with hint %d, completed %d\n", t, h, completed);
	phase[t] = ASKING;
	hint[t] = h;
	floor[t] = completed
}

inline succeed(t) {
	printf("tenure %d succeeds with fence %d\n", t, top[t]);
#ifdef TIMELY
	for (j : 0 .. TENURES - 1) {
		assert(lease[j] != BELIEVED) /* M */
	}
	lease[t] = BELIEVED;
#else
	assert(top[t] > floor[t]); /* O */
#ifndef ONLY_ORDER
	assert(top[t] < 15);
	assert(!(issued & (1 << top[t]))); /* U */
	issued = issued | (1 << top[t]);
#endif
	completed = MAX(completed, top[t]);
#endif
#ifdef NEVER_THREE
	successes++;
	assert(successes < 3);
#endif
#ifdef NEVER_LATE
	assert(!risen[t]);
#endif
	finish(t)
}

/* Has it succeeded, or can it no more? */
inline settle(t) {
	n = 0;
	x = 0;
	for (j : 0 .. INSTANCES - 1) {
		if
		:: AT(t, j) == HOLDS -> n++
		:: AT(t, j) == OUT -> x++
		:: else
		fi
	}
	if
	:: n >= QUORUM -> succeed(t)
	:: n < QUORUM && x > INSTANCES - QUORUM -> fail(t)
	:: else
	fi
}

#ifdef RAISE_UNCONDITIONAL
#define OBEYS(i, t) true
#else
#define OBEYS(i, t) (holder[i] == TOKEN(t))
#endif

/* A raise that will find the key lost is lost. */
inline send_raise(t, i) {
	if
	:: OBEYS(i, t) -> AT(t, i) = RAISE; VAL(t, i) = top[t]
	:: else -> AT(t, i) = OUT; VAL(t, i) = 0
	fi
}

/* What a granted number is worth now that T is known. */
inline weigh(t, i) {
	if
#ifdef LATE_COUNTS
	:: VAL(t, i) >= top[t] ->
#else
	:: VAL(t, i) == top[t] ->
#endif
		AT(t, i) = HOLDS;
		VAL(t, i) = 0
	:: else -> send_raise(t, i)
	fi
}

inline rise(t, i) {
	printf("tenure %d: T rises from %d to %d\n", t, top[t], VAL(t, i));
	top[t] = VAL(t, i);
#ifdef NEVER_LATE
	risen[t] = true;
#endif
	for (j : 0 .. INSTANCES - 1) {
		if
#ifdef STALE_YES
		:: AT(t, j) == RAISE -> VAL(t, j) = top[t]
#else
		:: AT(t, j) == RAISE || AT(t, j) == RAISED || AT(t, j) == HOLDS -> send_raise(t, j)
#endif
		:: else
		fi
	}
}

inline learn(t, i) {
	printf("tenure %d learns of %d at instance %d\n", t, VAL(t, i), i);
	AT(t, i) = KNOWN;
	if
	:: phase[t] == RAISING ->
#ifndef LATE_COUNTS
		if
		:: VAL(t, i) > top[t] -> rise(t, i)
		:: else
		fi;
#endif
		weigh(t, i)
	:: else ->
		n = 0;
		x = 0;
		for (j : 0 .. INSTANCES - 1) {
			if
			:: AT(t, j) == KNOWN ->
				n++;
				x = MAX(x, VAL(t, j))
			:: else
			fi
		}
		if
		:: n >= QUORUM ->
			phase[t] = RAISING;
			top[t] = x;
#ifdef MAX_ALONE
			succeed(t)
#else
			for (j : 0 .. INSTANCES - 1) {
				if
				:: AT(t, j) == KNOWN -> weigh(t, j)
				:: else
				fi
			}
#endif
		:: else
		fi
	fi;
	if
	:: phase[t] == RAISING -> settle(t)
	:: else
	fi
}

inline learn_yes(t, i) {
	printf("tenure %d learns that instance %d was raised\n", t, i);
	AT(t, i) = HOLDS;
	VAL(t, i) = 0;
	settle(t);
#ifdef NEVER_RAISED
	assert(phase[t] != OVER)
#endif
}

/* --- the instance --- */

/* The key goes, and with it any chance of a raise that is under way. */
inline drop(i) {
#ifndef RAISE_UNCONDITIONAL
	if
	:: holder[i] != NOBODY && holder[i] != SOMEBODY ->
		k = holder[i] - 1;
		if
		:: AT(k, i) == RAISE || AT(k, i) == AGAIN -> out(k, i)
		:: else
		fi
	:: else
	fi;
#endif
	holder[i] = NOBODY
}

/* The instance has given the tenure the number. */
inline give(t, i) {
	printf("instance %d gives %d to tenure %d\n", i, fence[i], t);
#ifdef TRUE_CLOCK
	clock = MAX(clock, fence[i]);
#endif
	if
	:: phase[t] == OVER -> AT(t, i) = OUT
	:: else ->
		AT(t, i) = GRANTED;
		VAL(t, i) = fence[i]
	fi;
#if CLIENTS < TENURES
	if /* What the client sent before this, for its tenure before this, does not overtake it. */
	:: t >= CLIENTS && UNDER_WAY(t - CLIENTS, i) ->
		AT(t - CLIENTS, i) = OUT;
		VAL(t - CLIENTS, i) = 0
	:: else
	fi;
#endif
	forget_hint(t)
}

inline forget_hint(t) {
	if
	:: USES_HINT(t, 0) || USES_HINT(t, 1) || USES_HINT(t, 2)
	:: else -> hint[t] = 0
	fi
}

inline grant(t, i) {
	drop(i);
	holder[i] = TOKEN(t);
	fence[i] = MAX(fence[i] + 1, hint[t]);
	give(t, i)
}

/* The key is ours already. */
inline grant_again(t, i) {
	fence[i] = MAX(fence[i] + 1, hint[t]);
	give(t, i)
}

inline take(t, i) {
	printf("instance %d gives its key to tenure %d\n", i, t);
	drop(i);
	holder[i] = TOKEN(t);
	AT(t, i) = SET
}

inline count(t, i) {
	if
	:: fence[i] < hint[t] -> fence[i] = hint[t]; give(t, i)
	:: fence[i] >= hint[t] && phase[t] != OVER && holder[i] == TOKEN(t) -> AT(t, i) = AGAIN
	:: else -> out(t, i); forget_hint(t)
	fi
}

/* Of a tenure that does not get the key. */
inline count_in_vain(t, i) {
	fence[i] = MAX(fence[i], hint[t]);
	out(t, i);
	forget_hint(t)
}

inline raise(t, i) {
	printf("instance %d raises %d to %d for tenure %d\n", i, fence[i], VAL(t, i), t);
	if
#ifndef LIFTS_NOTHING
	:: fence[i] >= VAL(t, i) -> out(t, i)
#endif
	:: else ->
		fence[i] = MAX(fence[i], VAL(t, i));
		if
		:: phase[t] == OVER -> AT(t, i) = OUT; VAL(t, i) = 0
		:: else -> AT(t, i) = RAISED
		fi
	fi
}

#ifdef FOLD
#define FREE(i) true
#else
#define FREE(i) (holder[i] == NOBODY)
#endif

/* The client may as well take notice of nothing before there is a quorum for it. */
#define ANSWERED(t, i) (AT(t, i) == GRANTED || AT(t, i) == KNOWN)
#define ANSWERS(t) (ANSWERED(t, 0) + ANSWERED(t, 1) + ANSWERED(t, 2))

#ifdef NATIVE
#define COUNTS_NATIVELY true
#else
#define COUNTS_NATIVELY false
#endif

#define WITH_INSTANCE(i) \
	:: d_step { AT(t, i) == SENT && FREE(i) -> grant(t, i); tidy() } \
	:: d_step { COUNTS_NATIVELY && AT(t, i) == SENT && FREE(i) -> take(t, i); tidy() } \
	:: d_step { COUNTS_NATIVELY && AT(t, i) == SENT -> count_in_vain(t, i); tidy() } \
	:: d_step { COUNTS_NATIVELY && AT(t, i) == SET -> count(t, i); tidy() } \
	:: d_step { AT(t, i) == AGAIN && holder[i] == TOKEN(t) -> grant_again(t, i); tidy() } \
	:: d_step { \
		AT(t, i) == GRANTED && (phase[t] == RAISING || ANSWERS(t) >= QUORUM) -> \
		learn(t, i); \
		tidy() \
	} \
	:: d_step { AT(t, i) == RAISE && OBEYS(i, t) -> raise(t, i); tidy() } \
	:: d_step { AT(t, i) == RAISED -> learn_yes(t, i); tidy() }

#define RELEASE_AT(i) \
	:: d_step { lease[t] == RELEASING && holder[i] == TOKEN(t) -> drop(i); tidy() }

proctype tenure(byte t) {
	byte h;

	atomic {
#if CLIENTS < TENURES
		t == 0 || (t < CLIENTS && phase[t - 1] != IDLE) || (t >= CLIENTS && phase[t - CLIENTS] != IDLE);
		if /* The client's tenure before this is over, if only because it was given up. */
		:: t >= CLIENTS -> d_step { finish(t - CLIENTS); tidy() }
		:: else
		fi;
#else
		t == 0 || phase[t - 1] != IDLE;
#endif
#ifdef TRUE_CLOCK
		clock++;
		begin(t, clock);
#else
		select(h : 1 .. HINTS);
		begin(t, h);
		h = 0;
#endif
	}
end:
	do
	WITH_INSTANCE(0)
	WITH_INSTANCE(1)
	WITH_INSTANCE(2)
#ifdef TIMELY
	:: d_step { lease[t] <= BELIEVED -> lease[t] = RELEASING; finish(t); tidy() }
	:: d_step { lease[t] != PASSED -> lease[t] = PASSED; finish(t); tidy() }
	RELEASE_AT(0)
	RELEASE_AT(1)
	RELEASE_AT(2)
#endif
	od
}

#ifdef TIMELY
#define MAY_EXPIRE(i) (holder[i] != NOBODY && lease[holder[i] - 1] == PASSED)
#else
#define MAY_EXPIRE(i) (holder[i] != NOBODY)
#endif

#define EXPIRE_AT(i) \
	:: d_step { MAY_EXPIRE(i) -> printf("the key expires at instance %d\n", i); drop(i); tidy() }

#ifndef FOLD
active proctype expiry() {
end:
	do
	EXPIRE_AT(0)
	EXPIRE_AT(1)
	EXPIRE_AT(2)
	od
}
#endif

#define FORGET_AT(i) \
	:: d_step { true -> printf("instance %d forgets %d\n", i, fence[i]); fence[i] = 0; tidy() }

#ifdef FORGET_ONE
active proctype loss() {
	if
	FORGET_AT(0)
	FORGET_AT(1)
	FORGET_AT(2)
	fi
}
#endif

init {
	byte f;

	atomic {
		select(f : 0 .. START); fence[0] = f;
		select(f : f .. START); fence[1] = f;
		select(f : f .. START); fence[2] = f;
		f = 0;
		run tenure(0);
		run tenure(1);
#if TENURES > 2
		run tenure(2);
#endif
#if TENURES > 3
		run tenure(3);
#endif
	}
}
