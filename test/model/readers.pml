/*
 * Readers and writers of one key on three instances: no writer overlaps a reader or a writer.
 * `check` (beside this file) runs the searches.
 *
 * An instance has the key: free, with a writer's token, or with the mark; and the set of readers,
 * whose members have deadlines of their own. Its commands are those of
 * src/redis/wire/kinds/read_write_scripts.hpp:
 *
 *   read      key free: the set is us, the key is the mark. Mark with a set: we join the set
 *   write     key free, or mark with a set of which nobody is alive: the key is our token, without
 *             a set. PLAIN: key free only, as a lock that knows of no readers
 *   extend    of a reader in the set, or of a token that is ours: the deadline moves. If the writer
 *             is a reader by now (DOWNGRADE), its token becomes the mark, with a set of us
 *   release   of a token: the key is free. Of a reader: we leave the set, and if nobody alive is
 *             left, the key is free
 *
 * A tenure is won when a quorum has granted. It believes in its lease from then on until its
 * deadline. One tenure, EXTENDS, may extend once: if a quorum has said so before the deadline, it
 * believes until a second deadline.
 *
 * Property (assertion in `check_overlap`)
 *   W  no two tenures believe at once, unless both are readers
 *
 * The environment, as in fence.pml: commands and replies are late or lost, so each step comes at
 * any later time or never; a client crashes, so that its deadline passes and nothing is released.
 * What an instance has promised it keeps until that deadline has passed, and any time longer. The
 * mark stays until the promises to all readers have passed, and any time longer. With EVICT an
 * instance loses the set, and the key stays.
 *
 * Left out: intents and turns, which only refuse; healing, adoption, and instances that forget all,
 * which are the simulation's (test/simulation/readers); fences (fence.pml); more than one
 * extension. A command that would be refused has no step. Instances are alike: after each step they
 * are put into an order, so that their numbers change in the course of a trail.
 *
 * Broken on purpose; each must be refuted
 *   RELEASE_ALL       the release of a reader frees the key although others are in the set
 *   NEWEST, SHRINKS   the mark stays for the newest reader alone; for the last to extend alone
 *   NO_MARK           a downgrade frees the key
 *   OVERWRITES        a writer takes the mark for a free key
 *   OVERLOOKS         a writer overlooks a reader, if there is one only
 *   DROPS_EARLY       readers are dropped before their deadlines
 *   READERS=1         the quorum of readers
 *   TRUSTS_EVICTED    with EVICT: a writer takes a mark without a set for one without readers
 *   FREES_EVICTED     with EVICT: the release of a reader does
 * Broken, and yet W holds
 *   LATE_EXTENSION    an extension counts after the first deadline: the instances that have
 *                     extended keep their promise. What breaks is that a lease which has ended is
 *                     held again; the simulation refutes it
 * Not vacuous; each must be refuted
 *   NEVER_TWO         two readers never believe at once
 *   NEVER_BOTH        a reader and a writer are never won in one run
 *   NEVER_DEAD        no writer takes a mark of which all readers are dead
 *   NEVER_EXTENDED    no extension counts
 *   NEVER_EVICTED     with EVICT: nobody is won after that
 */
#ifndef TENURES
#define TENURES 3
#endif
#ifndef WRITERS
#define WRITERS 1 /* the tenures with the greatest numbers */
#endif
#ifndef EXTENDS
#define EXTENDS TENURES /* nobody */
#endif
#ifndef READERS
#define READERS QUORUM
#endif
#define INSTANCES 3
#define QUORUM 2

#if TENURES < 3 || TENURES > 4
#error init knows of 3 or 4 tenures
#endif

#define FREE 0
#define MARK 1
#define TOKEN(t) ((t) + 2)
#define BIT(t) (1 << (t))

/* A tenure and an instance: its acquire, and its extension. */
#define AT(t, i) at[(t) * INSTANCES + (i)]
#define SENT 0
#define GRANTED 1
#define OUT 2
#define EXT(i) ext[i]
#define NOT_SENT 0
#define UNDER_WAY 1
#define EXTENDED 2

/* A tenure. */
#define NOT_YET 0
#define WON 1
#define RELEASING 2
#define OVER 3

byte key[INSTANCES];
byte set[INSTANCES];    /* the members that are alive, as bits */
bool has_set[INSTANCES];
byte hidden_set[INSTANCES]; /* those of a set that was evicted */
byte newest[INSTANCES]; /* NEWEST, SHRINKS: the token of the reader for which the mark stays */

byte lease[TENURES];
byte at[TENURES * INSTANCES];
byte passed[TENURES]; /* deadlines */
byte ext[INSTANCES];
bool longer;              /* the extension has counted */
byte promised[INSTANCES]; /* to EXTENDS: the second deadline */
bool downgraded;
#ifdef NEVER_BOTH
bool read;
bool written;
#endif
#ifdef NEVER_EVICTED
bool evicted;
#endif

hidden byte j;
hidden byte k;
hidden byte n;
hidden byte x;
hidden int spare;
hidden int shape[INSTANCES];

#define WRITES(t) ((t) >= TENURES - WRITERS && !(downgraded && (t) == EXTENDS))
#define LAST(t) ((t) == EXTENDS && longer -> 2 : 1)
#define BELIEVES(t) (lease[t] == WON && passed[t] < LAST(t))
/* The promise of an instance to a tenure has passed. */
#define MAY_END(t, i) (passed[t] > ((t) == EXTENDS -> promised[i] : 0))

/* --- the same state in fewer shapes --- */

inline swap(a, b) {
	x = key[a]; key[a] = key[b]; key[b] = x;
	x = set[a]; set[a] = set[b]; set[b] = x;
	x = has_set[a]; has_set[a] = has_set[b]; has_set[b] = x;
	x = hidden_set[a]; hidden_set[a] = hidden_set[b]; hidden_set[b] = x;
	x = newest[a]; newest[a] = newest[b]; newest[b] = x;
	x = ext[a]; ext[a] = ext[b]; ext[b] = x;
	x = promised[a]; promised[a] = promised[b]; promised[b] = x;
	for (k : 0 .. TENURES - 1) {
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
		for (k : 0 .. TENURES - 1) {
			if /* Its replies are of no more use. */
			:: lease[k] != NOT_YET && AT(k, j) == GRANTED -> AT(k, j) = OUT
			:: else
			fi
		}
		if
		:: EXTENDS < TENURES && (longer || lease[EXTENDS % TENURES] > WON) && ext[j] == EXTENDED ->
			ext[j] = NOT_SENT
		:: else
		fi;
		if /* Everything has passed, or nothing was promised. */
		:: EXTENDS < TENURES && passed[EXTENDS % TENURES] == 2 -> promised[j] = 0
		:: else
		fi;
		shape[j] = ((((key[j] * 16 + set[j]) * 2 + has_set[j]) * 16 + hidden_set[j]) * 16 +
		            newest[j]) * 3 + ext[j];
		shape[j] = shape[j] * 2 + promised[j];
		for (k : 0 .. TENURES - 1) {
			shape[j] = shape[j] * 3 + AT(k, j)
		}
	}
	order(0, 1);
	order(1, 2);
	order(0, 1);
	j = 0; k = 0; n = 0; x = 0; spare = 0
}

/* --- the client --- */

/* The tenure believes from now on. */
inline check_overlap(t) {
	for (j : 0 .. TENURES - 1) {
		assert(j == t || !BELIEVES(t) || !BELIEVES(j) || (!WRITES(t) && !WRITES(j))) /* W */
#ifdef NEVER_TWO
		;
		assert(j == t || !BELIEVES(j))
#endif
	}
}
inline win(t) {
	printf("tenure %d is won\n", t);
	lease[t] = WON;
	check_overlap(t);
#ifdef NEVER_BOTH
	if
	:: WRITES(t) -> written = true
	:: else -> read = true
	fi;
	assert(!read || !written);
#endif
#ifdef NEVER_EVICTED
	assert(!evicted);
#endif
}
inline count_extension(t) {
	printf("tenure %d is extended\n", t);
#ifdef NEVER_EXTENDED
	assert(false);
#endif
	longer = true;
	check_overlap(t)
}

#define GRANTS(t) ((AT(t, 0) == GRANTED) + (AT(t, 1) == GRANTED) + (AT(t, 2) == GRANTED))
#define NEEDS(t) (WRITES(t) -> QUORUM : READERS)
#define EXTENSIONS ((ext[0] == EXTENDED) + (ext[1] == EXTENDED) + (ext[2] == EXTENDED))

/* --- the instance --- */

inline no_readers(i) {
	set[i] = 0;
	has_set[i] = false;
	hidden_set[i] = 0;
	newest[i] = 0
}
inline free(i) {
	key[i] = FREE;
	no_readers(i)
}
inline admit(t, i) {
	if
	:: key[i] != MARK -> no_readers(i); key[i] = MARK
	:: else
	fi;
	set[i] = set[i] | BIT(t);
	has_set[i] = true
}

#ifdef OVERLOOKS
#define NOBODY_ALIVE(i) (set[i] == 0 || set[i] == 1 || set[i] == 2 || set[i] == 4 || set[i] == 8)
#else
#define NOBODY_ALIVE(i) (set[i] == 0)
#endif
#ifdef TRUSTS_EVICTED
#define KNOWN(i) true
#else
#define KNOWN(i) has_set[i]
#endif

#define READABLE(i) (key[i] == FREE || (key[i] == MARK && has_set[i]))
#if defined(OVERWRITES)
#define WRITABLE(i) (key[i] == FREE || key[i] == MARK)
#elif defined(PLAIN)
#define WRITABLE(i) (key[i] == FREE)
#else
#define WRITABLE(i) (key[i] == FREE || (key[i] == MARK && KNOWN(i) && NOBODY_ALIVE(i)))
#endif

inline grant(t, i) {
	printf("instance %d grants to tenure %d\n", i, t);
	if
	:: WRITES(t) ->
#ifdef NEVER_DEAD
		assert(key[i] == FREE);
#endif
		no_readers(i);
		key[i] = TOKEN(t)
	:: else ->
		admit(t, i);
#ifdef NEWEST
		newest[i] = BIT(t)
#endif
	fi;
	AT(t, i) = GRANTED
}
#define IS_MEMBER(t, i) (key[i] == MARK && (set[i] & BIT(t)))
inline extend(t, i) {
	printf("instance %d extends tenure %d\n", i, t);
	ext[i] = EXTENDED;
	promised[i] = 1;
	if
	:: !WRITES(t) ->
		admit(t, i);
#ifdef NO_MARK
		if
		:: downgraded -> key[i] = FREE
		:: else
		fi;
#endif
#ifdef SHRINKS
		newest[i] = BIT(t);
#endif
		skip
	:: else
	fi
}
#ifdef FREES_EVICTED
#define WAS_MEMBER(t, i) ((set[i] | hidden_set[i]) & BIT(t))
#else
#define WAS_MEMBER(t, i) (set[i] & BIT(t))
#endif
inline release(t, i) {
	printf("tenure %d is released at instance %d\n", t, i);
	if
	:: key[i] == TOKEN(t) -> free(i)
	:: else ->
		set[i] = set[i] & ~BIT(t);
		hidden_set[i] = hidden_set[i] & ~BIT(t);
		if
#ifdef RELEASE_ALL
		:: true -> free(i)
#else
		:: set[i] == 0 -> free(i)
#endif
		:: else
		fi
	fi
}
/* The reader is dead: its time has passed, or will be found to have passed. */
inline die(t, i) {
	printf("reader %d is dead at instance %d\n", t, i);
	set[i] = set[i] & ~BIT(t);
	hidden_set[i] = hidden_set[i] & ~BIT(t)
}

#ifdef DROPS_EARLY
#define MAY_DIE(t, i) (lease[t] == WON || MAY_END(t, i))
#else
#define MAY_DIE(t, i) MAY_END(t, i)
#endif
#if defined(NEWEST) || defined(SHRINKS)
#define MARK_MAY_END(i) ((set[i] | hidden_set[i]) == 0 || (newest[i] && !(set[i] & newest[i])))
#else
#define MARK_MAY_END(i) ((set[i] | hidden_set[i]) == 0)
#endif

#define LEAVES(t, i) \
	(lease[t] == RELEASING && (key[i] == TOKEN(t) || key[i] == MARK && WAS_MEMBER(t, i)))

#define WITH_INSTANCE(i) \
	:: d_step { \
		AT(t, i) == SENT && (WRITES(t) && WRITABLE(i) || !WRITES(t) && READABLE(i)) -> \
		grant(t, i); \
		tidy() \
	} \
	:: d_step { LEAVES(t, i) -> release(t, i); tidy() } \
	:: d_step { \
		key[i] == MARK && ((set[i] | hidden_set[i]) & BIT(t)) && MAY_DIE(t, i) -> \
		die(t, i); \
		tidy() \
	} \
	:: d_step { key[i] == TOKEN(t) && MAY_END(t, i) -> free(i); tidy() } \
	:: d_step { \
		t == EXTENDS && ext[i] == UNDER_WAY && \
			(key[i] == TOKEN(t) || !WRITES(t) && IS_MEMBER(t, i)) -> \
		extend(t, i); \
		tidy() \
	}

#ifdef LATE_EXTENSION
#define IN_TIME(t) true
#else
#define IN_TIME(t) (passed[t] == 0)
#endif

proctype tenure(byte t) {
end:
	do
	:: d_step { lease[t] == NOT_YET && passed[t] == 0 && GRANTS(t) >= NEEDS(t) -> win(t); tidy() }
	:: d_step { lease[t] <= WON -> printf("tenure %d is given up\n", t); lease[t] = RELEASING; tidy() }
	:: d_step { passed[t] < (t == EXTENDS -> 2 : 1) -> passed[t]++; tidy() }
	:: d_step {
		t == EXTENDS && BELIEVES(t) && passed[t] == 0 && !longer && ext[0] + ext[1] + ext[2] == 0 ->
		printf("tenure %d extends\n", t);
#ifdef DOWNGRADE
		downgraded = true;
#endif
		ext[0] = UNDER_WAY;
		ext[1] = UNDER_WAY;
		ext[2] = UNDER_WAY;
		tidy()
	}
	:: d_step {
		t == EXTENDS && lease[t] == WON && IN_TIME(t) && !longer && EXTENSIONS >= QUORUM ->
		count_extension(t);
		tidy()
	}
	WITH_INSTANCE(0)
	WITH_INSTANCE(1)
	WITH_INSTANCE(2)
	od
}

#ifdef EVICT
#define EVICT_AT(i) \
	:: d_step { \
		key[i] == MARK && has_set[i] -> \
		printf("instance %d loses the set\n", i); \
		hidden_set[i] = hidden_set[i] | set[i]; \
		set[i] = 0; \
		has_set[i] = false; \
		note_eviction(); \
		tidy() \
	}
#else
#define EVICT_AT(i)
#endif
inline note_eviction() {
#ifdef NEVER_EVICTED
	evicted = true;
#endif
	skip
}
#define MARK_ENDS_AT(i) \
	:: d_step { \
		key[i] == MARK && MARK_MAY_END(i) -> \
		printf("the mark ends at instance %d\n", i); \
		free(i); \
		tidy() \
	}

active proctype environment() {
end:
	do
	MARK_ENDS_AT(0)
	MARK_ENDS_AT(1)
	MARK_ENDS_AT(2)
	EVICT_AT(0)
	EVICT_AT(1)
	EVICT_AT(2)
	od
}

init {
	atomic {
		run tenure(0);
		run tenure(1);
		run tenure(2)
#if TENURES > 3
		;
		run tenure(3)
#endif
	}
}
