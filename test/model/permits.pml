/*
 * Permits of one semaphore on three instances: no slot has two holders. `check` (beside this file)
 * runs the searches.
 *
 * An instance has the slots, each free or with a token. Its commands are those of
 * src/redis/wire/kinds/permit_scripts.hpp:
 *
 *   take     our token has a slot: that one. Else any slot that is free. (The scripts give the
 *            first from a start on. Here the order does not matter.)
 *   only     as take, for one slot: if that is free, it becomes ours, and another one that we had
 *            becomes free. If it is another's, the slot that we had becomes free
 *   extend   only if our token has the tenure's slot: the deadline moves
 *   release  our token leaves its slot, whichever that is
 *
 * A tenure asks all to take. It is won when a quorum has given it one slot. It may ask once more,
 * with `only`, those that gave another slot than the one that it chooses; their former answers
 * count no more. It believes in its lease until its deadline. One tenure, HEALS, may heal instances
 * (that is `only`) while it believes. One tenure, EXTENDS, may extend once: if a quorum has said so
 * before the deadline, it believes until a second deadline.
 *
 * Properties (assertions in `check_slots`)
 *   P2  no two tenures believe at once in the same slot
 *   P1  no more tenures believe at once than there are slots (with COUNTS)
 *
 * The environment, as in readers.pml: commands and replies are late or lost, so each step comes at
 * any later time or never; a client crashes, so that its deadline passes and nothing is released.
 * What an instance has promised it keeps until that deadline has passed, and any time longer. With
 * TIMELY a take that comes after the end of its tenure is lost.
 *
 * Left out: adoption, instances that forget all, and clients with other numbers of slots, which are
 * the simulation's (test/simulation/permits); fences (fence.pml); more than one extension.
 * Instances are alike, and so are slots, and tenures that neither heal nor extend: after each step
 * they are put into an order, so that their numbers change in the course of a trail.
 *
 * Broken on purpose; each must be refuted
 *   COUNTS            any slot counts, so that each instance counts the permits (P1)
 *   QUORUM=1
 *   RELEASES_SLOT     a release frees the slot of the tenure, whoever has it
 *   OTHER_COUNTS      an extension counts where the token has another slot
 *   STEALS            a heal takes the slot from another
 *   DROPS_EARLY       a token is dropped before its deadline
 *   MOVES             a take moves the token that has a slot already
 *   STALE             in the second round the former answers count for the former slot
 * Broken, and yet P2 holds
 *   LATE_EXTENSION    an extension counts after the first deadline; see readers.pml
 *   KEEPS             a token that cannot have its slot keeps the other: that is a matter of time
 * Not vacuous; each must be refuted
 *   NEVER_FULL        all slots are never held at once
 *   NEVER_SECOND      a second round never wins
 *   NEVER_MOVED       a heal never moves a token
 *   NEVER_GIVEN_BACK  `only` never frees the slot that we had
 *   NEVER_EXTENDED    no extension counts
 */
#ifndef TENURES
#define TENURES 3
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef EXTENDS
#define EXTENDS TENURES /* nobody */
#endif
#ifndef HEALS
#define HEALS TENURES
#endif
#ifndef QUORUM
#define QUORUM 2
#endif
#define INSTANCES 3

#if SLOTS > 2 || TENURES > 3
#error there are steps for 2 slots, and init knows of 3 tenures
#endif

#define FREE 0
#define TOKEN(t) ((t) + 1)
#define OWNER(i, s) owner[(i) * SLOTS + (s)]

/* A tenure and an instance: what it was asked last, and what it has answered. */
#define AT(t, i) at[(t) * INSTANCES + (i)]
#define SENT 0
#define OUT 1
#define GIVEN(s) (2 + (s))
#define ONLY(s) (4 + (s)) /* asked for the tenure's slot, after it has given s */

#define NOT_SENT 0
#define UNDER_WAY 1
#define EXTENDED 2

/* A tenure. */
#define NOT_YET 0
#define WON 1
#define OVER 2 /* released, or its deadline has passed: its tokens may go at any time */

byte owner[INSTANCES * SLOTS];

byte lease[TENURES];
byte slot[TENURES];
bool second[TENURES]; /* it has asked again, for its slot */
#ifdef STALE
byte asks[TENURES]; /* for this one, which may not be its slot */
#define ASKS(t) asks[t]
#else
#define ASKS(t) slot[t]
#endif
byte at[TENURES * INSTANCES];
bool heal[INSTANCES]; /* of HEALS: under way */
byte ext[INSTANCES];
bool longer;              /* the extension has counted */
bool first_passed;        /* of EXTENDS, whose lease lasts until the second deadline */
bool promised[INSTANCES]; /* to EXTENDS: the second deadline */

hidden byte j;
hidden byte k;
hidden byte n;
hidden byte x;
hidden byte found;
hidden int spare;
hidden int shape[INSTANCES];

#ifdef LATE_EXTENSION /* the first deadline may have passed without an extension */
#define BELIEVES(t) (lease[t] == WON && ((t) != EXTENDS || !first_passed || longer))
#else
#define BELIEVES(t) (lease[t] == WON)
#endif
/* The promise of an instance to a tenure has passed. */
#define MAY_END(t, i) (lease[t] == OVER || (t) == EXTENDS && first_passed && !promised[i])
#define IS_HEALING(t) ((t) == HEALS && (heal[0] || heal[1] || heal[2]))
#define ASKS_AGAIN(t) (AT(t, 0) >= ONLY(0) || AT(t, 1) >= ONLY(0) || AT(t, 2) >= ONLY(0))

/* --- the same state in fewer shapes --- */

inline swap(a, b) {
	for (k : 0 .. SLOTS - 1) {
		x = OWNER(a, k); OWNER(a, k) = OWNER(b, k); OWNER(b, k) = x
	}
	x = heal[a]; heal[a] = heal[b]; heal[b] = x;
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
#if SLOTS > 1
#define OTHER_SLOT(a) \
	(a == GIVEN(0) -> GIVEN(1) : (a == GIVEN(1) -> GIVEN(0) : \
	(a == ONLY(0) -> ONLY(1) : (a == ONLY(1) -> ONLY(0) : a))))
inline swap_slots() {
	for (j : 0 .. INSTANCES - 1) {
		x = OWNER(j, 0); OWNER(j, 0) = OWNER(j, 1); OWNER(j, 1) = x;
		for (k : 0 .. TENURES - 1) {
			AT(k, j) = OTHER_SLOT(AT(k, j))
		}
	}
	for (k : 0 .. TENURES - 1) {
		slot[k] = 1 - slot[k]
	}
}
#endif
#define OTHER_TOKEN(a, b, o) (o == TOKEN(a) -> TOKEN(b) : (o == TOKEN(b) -> TOKEN(a) : o))
inline swap_tenures(a, b) {
	x = lease[a]; lease[a] = lease[b]; lease[b] = x;
	x = slot[a]; slot[a] = slot[b]; slot[b] = x;
	x = second[a]; second[a] = second[b]; second[b] = x;
	for (j : 0 .. INSTANCES - 1) {
		x = AT(a, j); AT(a, j) = AT(b, j); AT(b, j) = x;
		for (k : 0 .. SLOTS - 1) {
			OWNER(j, k) = OTHER_TOKEN(a, b, OWNER(j, k))
		}
	}
}
#define POWER(a) (1 << (2 * (a)))
#define FORM(t) ((((POWER(AT(t, 0)) + POWER(AT(t, 1)) + POWER(AT(t, 2))) * 3 + lease[t]) * 2 + \
	second[t]) * 2 + slot[t])
#define WEIGHT(s) (POWER(OWNER(0, s)) + POWER(OWNER(1, s)) + POWER(OWNER(2, s)))

/* Ends every step. */
inline tidy() {
	for (j : 0 .. INSTANCES - 1) {
		for (k : 0 .. TENURES - 1) {
			if /* Its answers are of no more use. */
			:: lease[k] != NOT_YET && (AT(k, j) == GIVEN(0) || AT(k, j) == GIVEN(1)) ->
				AT(k, j) = OUT
#ifdef TIMELY
			:: lease[k] == OVER && AT(k, j) == SENT -> AT(k, j) = OUT
#endif
			:: else
			fi
		}
		if
		:: EXTENDS < TENURES && (longer || lease[EXTENDS % TENURES] > WON) && ext[j] == EXTENDED ->
			ext[j] = NOT_SENT
		:: else
		fi;
		if /* Everything has passed, or nothing was promised. */
		:: EXTENDS < TENURES && lease[EXTENDS % TENURES] == OVER -> promised[j] = false
		:: else
		fi
	}
	if
	:: EXTENDS < TENURES && lease[EXTENDS % TENURES] == OVER -> longer = false; first_passed = false
	:: else
	fi;
#if SLOTS > 1 && !defined(STALE)
	if
	:: WEIGHT(0) > WEIGHT(1) -> swap_slots()
	:: else
	fi;
#endif
	for (k : 0 .. TENURES - 1) {
		if
		:: lease[k] != NOT_YET ->
			second[k] = false;
			for (j : 0 .. INSTANCES - 1) {
				if
				:: AT(k, j) == ONLY(1) -> AT(k, j) = ONLY(0)
				:: else
				fi
			}
		:: else
		fi;
		if
		:: (lease[k] == NOT_YET && !second[k]) || \
			(lease[k] == OVER && !ASKS_AGAIN(k) && !IS_HEALING(k)) -> slot[k] = 0
		:: else
		fi
	}
#if TENURES > 2 && !defined(STALE)
	if
	:: FORM(0) > FORM(1) -> swap_tenures(0, 1)
	:: else
	fi;
#endif
	for (j : 0 .. INSTANCES - 1) {
		shape[j] = 0;
		for (k : 0 .. TENURES - 1) {
			shape[j] = shape[j] * 6 + AT(k, j)
		}
		for (k : 0 .. SLOTS - 1) {
			shape[j] = shape[j] * (TENURES + 1) + OWNER(j, k)
		}
		shape[j] = ((shape[j] * 2 + heal[j]) * 3 + ext[j]) * 2 + promised[j]
	}
	order(0, 1);
	order(1, 2);
	order(0, 1);
	j = 0; k = 0; n = 0; x = 0; found = 0; spare = 0
}

/* --- the client --- */

/* The tenure believes from now on. */
inline check_slots(t) {
	n = 0;
	for (j : 0 .. TENURES - 1) {
#ifndef COUNTS
		assert(j == t || !BELIEVES(t) || !BELIEVES(j) || slot[j] != slot[t]); /* P2 */
#endif
		n = n + BELIEVES(j)
	}
	assert(n <= SLOTS) /* P1 */
#ifdef NEVER_FULL
	;
	assert(n < SLOTS)
#endif
}
inline win(t, s) {
	printf("tenure %d is won in slot %d\n", t, s);
	lease[t] = WON;
	slot[t] = s;
	check_slots(t)
#ifdef NEVER_SECOND
	;
	assert(!second[t])
#endif
}
#ifdef STALE
#define VOTES(t, i, s) (AT(t, i) == GIVEN(s) || AT(t, i) == ONLY(s))
#elif defined(COUNTS)
#define VOTES(t, i, s) (AT(t, i) == GIVEN(0) || AT(t, i) == GIVEN(1))
#else
#define VOTES(t, i, s) (AT(t, i) == GIVEN(s))
#endif
#define HAS_QUORUM(t, s) (VOTES(t, 0, s) + VOTES(t, 1, s) + VOTES(t, 2, s) >= QUORUM)
#ifdef STALE
#define MAY_WIN(t, s) (lease[t] == NOT_YET && HAS_QUORUM(t, s))
#else
#define MAY_WIN(t, s) \
	(lease[t] == NOT_YET && HAS_QUORUM(t, s) && (!second[t] || slot[t] == s))
#endif
#define SOME_GAVE(t, s) \
	(AT(t, 0) == GIVEN(s) || AT(t, 1) == GIVEN(s) || AT(t, 2) == GIVEN(s))
inline ask_again(t, s) {
	printf("tenure %d asks for slot %d alone\n", t, s);
	second[t] = true;
	slot[t] = s;
	ASKS(t) = s;
	for (j : 0 .. INSTANCES - 1) {
		if
		:: AT(t, j) == GIVEN(1 - s) -> AT(t, j) = ONLY(1 - s)
		:: else
		fi
	}
}
#define EXTENSIONS ((ext[0] == EXTENDED) + (ext[1] == EXTENDED) + (ext[2] == EXTENDED))
inline count_extension(t) {
	printf("tenure %d is extended\n", t);
#ifdef NEVER_EXTENDED
	assert(false);
#endif
	longer = true;
	check_slots(t)
}

/* --- the instance --- */

#if SLOTS > 1
#define HAS_ANY(t, i) (OWNER(i, 0) == TOKEN(t) || OWNER(i, 1) == TOKEN(t))
#else
#define HAS_ANY(t, i) (OWNER(i, 0) == TOKEN(t))
#endif
inline leave(t, i) {
	for (j : 0 .. SLOTS - 1) {
		if
		:: OWNER(i, j) == TOKEN(t) -> OWNER(i, j) = FREE
		:: else
		fi
	}
}
#ifdef MOVES
#define MAY_TAKE(t, i, s) (OWNER(i, s) == FREE || OWNER(i, s) == TOKEN(t))
#else
#define MAY_TAKE(t, i, s) (OWNER(i, s) == TOKEN(t) || OWNER(i, s) == FREE && !HAS_ANY(t, i))
#endif
inline take(t, i, s) {
	printf("instance %d gives slot %d to tenure %d\n", i, s, t);
	leave(t, i);
	OWNER(i, s) = TOKEN(t);
	AT(t, i) = GIVEN(s)
}
/* `found`: it is ours now. */
inline take_only(t, i, s, steals) {
	found = OWNER(i, s) == FREE || OWNER(i, s) == TOKEN(t) || steals;
	printf("instance %d is asked by tenure %d for slot %d: %d\n", i, t, s, found);
#ifdef NEVER_GIVEN_BACK
	assert(found || !HAS_ANY(t, i));
#endif
#ifdef NEVER_MOVED
	assert(lease[t] == NOT_YET || !found || !HAS_ANY(t, i) || OWNER(i, s) == TOKEN(t));
#endif
	if
#ifdef KEEPS
	:: !found -> skip
#endif
	:: else -> leave(t, i)
	fi;
	if
	:: found -> OWNER(i, s) = TOKEN(t)
	:: else
	fi
}
inline release(t, i) {
	printf("tenure %d is released at instance %d\n", t, i);
#ifdef RELEASES_SLOT
	OWNER(i, slot[t]) = FREE;
#endif
	leave(t, i)
}
#ifdef RELEASES_SLOT
#define LEAVES(t, i) (lease[t] == OVER && (HAS_ANY(t, i) || OWNER(i, slot[t]) != FREE))
#else
#define LEAVES(t, i) (lease[t] == OVER && HAS_ANY(t, i))
#endif
#ifdef DROPS_EARLY
#define MAY_DIE(t, i) (HAS_ANY(t, i) && (lease[t] == WON || MAY_END(t, i)))
#else
#define MAY_DIE(t, i) (HAS_ANY(t, i) && MAY_END(t, i))
#endif
#ifdef OTHER_COUNTS
#define EXTENDABLE(t, i) HAS_ANY(t, i)
#else
#define EXTENDABLE(t, i) (OWNER(i, slot[t]) == TOKEN(t))
#endif
#ifdef STEALS
#define STEALING true
#else
#define STEALING false
#endif

#ifdef TIMELY
#define ARRIVES(t) (lease[t] != OVER)
#else
#define ARRIVES(t) true
#endif
#define WITH_SLOT(i, s) \
	:: d_step { AT(t, i) == SENT && ARRIVES(t) && MAY_TAKE(t, i, s) -> take(t, i, s); tidy() }
#if SLOTS > 1
#define WITH_SLOTS(i) WITH_SLOT(i, 0) WITH_SLOT(i, 1)
#else
#define WITH_SLOTS(i) WITH_SLOT(i, 0)
#endif
#define WITH_INSTANCE(i) \
	WITH_SLOTS(i) \
	:: d_step { \
		AT(t, i) == ONLY(0) || AT(t, i) == ONLY(1) -> \
		take_only(t, i, ASKS(t), false); \
		AT(t, i) = (found -> GIVEN(ASKS(t)) : OUT); \
		tidy() \
	} \
	:: d_step { \
		t == HEALS && BELIEVES(t) && !heal[i] && OWNER(i, slot[t]) != TOKEN(t) -> \
		heal[i] = true; \
		tidy() \
	} \
	:: d_step { \
		t == HEALS && heal[i] -> \
		take_only(t, i, slot[t], STEALING); \
		heal[i] = false; \
		tidy() \
	} \
	:: d_step { LEAVES(t, i) -> release(t, i); tidy() } \
	:: d_step { \
		MAY_DIE(t, i) -> \
		printf("tenure %d is dead at instance %d\n", t, i); \
		leave(t, i); \
		tidy() \
	} \
	:: d_step { \
		t == EXTENDS && ext[i] == UNDER_WAY && EXTENDABLE(t, i) -> \
		printf("instance %d extends tenure %d\n", i, t); \
		ext[i] = EXTENDED; \
		promised[i] = 1; \
		tidy() \
	}

#ifdef LATE_EXTENSION
#define MAY_PASS_FIRST true
#else
#define MAY_PASS_FIRST longer
#endif

proctype tenure(byte t) {
end:
	do
	:: d_step { MAY_WIN(t, 0) -> win(t, 0); tidy() }
#if SLOTS > 1
	:: d_step { MAY_WIN(t, 1) -> win(t, 1); tidy() }
	:: d_step {
		lease[t] == NOT_YET && !second[t] && SOME_GAVE(t, 1) ->
		ask_again(t, 0);
		tidy()
	}
	:: d_step {
		lease[t] == NOT_YET && !second[t] && SOME_GAVE(t, 0) ->
		ask_again(t, 1);
		tidy()
	}
#endif
	:: d_step { lease[t] <= WON -> printf("tenure %d is over\n", t); lease[t] = OVER; tidy() }
	:: d_step {
		t == EXTENDS && lease[t] == WON && MAY_PASS_FIRST && !first_passed ->
		printf("the first deadline of tenure %d has passed\n", t);
		first_passed = true;
		tidy()
	}
	:: d_step {
		t == EXTENDS && lease[t] == WON && !first_passed && !longer &&
			ext[0] + ext[1] + ext[2] == 0 ->
		printf("tenure %d extends\n", t);
		ext[0] = UNDER_WAY;
		ext[1] = UNDER_WAY;
		ext[2] = UNDER_WAY;
		tidy()
	}
	:: d_step {
		t == EXTENDS && lease[t] == WON && !longer && EXTENSIONS >= QUORUM ->
		count_extension(t);
		tidy()
	}
	WITH_INSTANCE(0)
	WITH_INSTANCE(1)
	WITH_INSTANCE(2)
	od
}

init {
	atomic {
		run tenure(0);
		run tenure(1)
#if TENURES > 2
		;
		run tenure(2)
#endif
	}
}
