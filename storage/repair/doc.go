// Package repair reads data directories that no store could open. Inspect is for `keyp check`, and
// finds the damage. Repair is for `keyp repair`, and saves the sound data into a new directory.
// Neither changes the directory it reads, and no server may use it meanwhile.
//
//	     DIR/keyp.db                    DIR/wal
//	         │                             │
//	  reader.go: page by page        log.go: segment by segment, across damage
//	    │            │                     │
//	inspect.go   salvage.go ───────────────┤ what the log states, and what its gaps make doubtful
//	    │            │                     │
//	    │      NEWDIR/keyp.db        NEWDIR/wal
//	    │            └──────────┬──────────┘
//	    └──── storage.Open, storage.Check ────┘ replays the log and proves the result
//
// Both use readers of their own, which trust nothing, because the store relies on pages that it has
// proven. Then the store opens what they found sound, and proves that it agrees with itself.
package repair
