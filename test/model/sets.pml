/*
 * Locks on several keys: nobody waits in a circle. `check` (beside this file) runs the searches.
 *
 * A key is free, or has an owner. An acquirer wants any of the keys, ROUNDS times, and chooses anew
 * each time which. It takes them in one of these ways:
 *
 *   all or none   takes all keys at one moment, when all are free; holds nothing while it waits
 *   in order      takes one key after the other, from the lowest, and keeps them; it may begin so
 *                 when a round for all was refused. Then the conversion, which may be refused: it
 *                 gives all keys back, and begins again
 *   narrow        wants one key; all or none and in order are the same for it
 *   foreign       a narrow one that knows of no order in a process
 *
 * Two acquirers are of one process. There an acquirer waits until nobody who came earlier, and is
 * not done, wants one of its keys: so `before` is one order for all keys. An acquirer keeps its
 * place until its lease has ended.
 *
 * Property: all come to their end, whatever happens (no invalid end state). Since each has a number
 * of rounds, those in a circle cannot hide behind others that go on.
 *
 * Left out: instances and quorums (a key is had or not; who has a minority gives it back at once,
 * or has it in order), expiry, loss and cancellation. All of these only free keys and places, so a
 * circle that needs them would not last.
 *
 * Broken on purpose; each must have an invalid end state
 *   OPPOSITE     one acquirer takes its keys from the highest
 *   OWN_ORDERS   in the process, each key has an order of its own
 * Not vacuous; each must be refuted
 *   NEVER_HELD_IN_ORDER, NEVER_TOGETHER    nobody has several keys in that way
 *   NEVER_WAITS_IN_ORDER                   nobody has a key while it waits for the next
 */
#ifndef ROUNDS
#define ROUNDS 2
#endif
#define KEYS 3
#define ACQUIRERS 4
#define FOREIGN 3 /* the number of the foreign one */
#define NOBODY 0
#define HAS(i) ((i) + 1)

#define BIT(k) (1 << (k))
#define LOCAL(i) ((i) < 2)
#define ONE(w) ((w) == 1 || (w) == 2 || (w) == 4)

byte owner[KEYS];
byte wants[ACQUIRERS]; /* keys as bits; 0: nothing */
/* The keys for which the other local acquirer came before this one. */
byte before[2];

#define FREE(w) ((!((w) & 1) || owner[0] == NOBODY) && (!((w) & 2) || owner[1] == NOBODY) && \
                 (!((w) & 4) || owner[2] == NOBODY))
#define FIRST(i) (!LOCAL(i) || (before[(i) % 2] & wants[i] & wants[1 - (i) % 2]) == 0)

/* Waits until the key is free, and takes it. */
inline take(i, n) {
	owner[n] == NOBODY;
	owner[n] = HAS(i)
}
#define LACKS(i, n) ((wants[i] & BIT(n)) && owner[n] != HAS(i))

inline take_all(i) {
	if :: wants[i] & 1 -> owner[0] = HAS(i) :: else fi;
	if :: wants[i] & 2 -> owner[1] = HAS(i) :: else fi;
	if :: wants[i] & 4 -> owner[2] = HAS(i) :: else fi
}
inline free_all(i) {
	if :: owner[0] == HAS(i) -> owner[0] = NOBODY :: else fi;
	if :: owner[1] == HAS(i) -> owner[1] = NOBODY :: else fi;
	if :: owner[2] == HAS(i) -> owner[2] = NOBODY :: else fi
}

proctype acquirer(byte i) {
	byte rounds = ROUNDS;
arrive:
	atomic {
		if
		:: rounds == 0 -> goto done
		:: else -> rounds--
		fi;
		if
		:: wants[i] = 1
		:: wants[i] = 2
		:: wants[i] = 4
		:: i != FOREIGN -> wants[i] = 3
		:: i != FOREIGN -> wants[i] = 5
		:: i != FOREIGN -> wants[i] = 6
		:: i != FOREIGN -> wants[i] = 7
		fi;
		if
		:: LOCAL(i) ->
			before[i % 2] = wants[1 - i % 2];
			before[1 - i % 2] = 0;
#ifdef OWN_ORDERS
			if /* The key 0 has its order from elsewhere. */
			:: before[i % 2] & wants[i] & 1 ->
				before[i % 2] = before[i % 2] & 6;
				before[1 - i % 2] = 1
			:: else
			fi
#endif
		:: else
		fi
	}
together:
	atomic {
		if
		:: FIRST(i) && FREE(wants[i]) ->
			take_all(i);
#ifdef NEVER_TOGETHER
			assert(ONE(wants[i]));
#endif
			goto section
		:: FIRST(i) && !FREE(wants[i]) && !ONE(wants[i]) /* patience is over */
		fi
	}
in_order:
	atomic {
		if
#ifdef OPPOSITE
		:: i == 2 && LACKS(i, 2) -> take(i, 2); goto in_order
		:: i == 2 && !LACKS(i, 2) && LACKS(i, 1) -> take(i, 1); goto in_order
		:: i == 2 && !LACKS(i, 2) && !LACKS(i, 1) && LACKS(i, 0) -> take(i, 0); goto in_order
		:: i != 2 && LACKS(i, 0) -> take(i, 0); goto in_order
		:: i != 2 && !LACKS(i, 0) && LACKS(i, 1) -> take(i, 1); goto in_order
		:: i != 2 && !LACKS(i, 0) && !LACKS(i, 1) && LACKS(i, 2) -> take(i, 2); goto in_order
#else
		:: LACKS(i, 0) -> take(i, 0); goto in_order
		:: !LACKS(i, 0) && LACKS(i, 1) ->
#ifdef NEVER_WAITS_IN_ORDER
			assert(owner[1] == NOBODY || owner[0] != HAS(i));
#endif
			take(i, 1); goto in_order
		:: !LACKS(i, 0) && !LACKS(i, 1) && LACKS(i, 2) -> take(i, 2); goto in_order
#endif
		:: !LACKS(i, 0) && !LACKS(i, 1) && !LACKS(i, 2)
		fi
	}
	atomic {
		if
		:: skip
#ifdef NEVER_HELD_IN_ORDER
			; assert(false)
#endif
		:: free_all(i); goto together /* the conversion was refused */
		fi
	}
section:
	atomic {
		free_all(i);
		wants[i] = 0;
		if
		:: LOCAL(i) -> before[0] = 0; before[1] = 0
		:: else
		fi
	}
	goto arrive;
done:
	skip
}

init {
	atomic {
		run acquirer(0);
		run acquirer(1);
		run acquirer(2);
		run acquirer(3)
	}
}
