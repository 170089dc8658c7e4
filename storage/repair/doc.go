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
// Inspect and Repair read the directory with code of their own, which takes everything for damaged
// until it is checked. The store's own code would not do: it refuses to open a damaged file. Then
// the store opens what they found sound, and proves that it agrees with itself.
package repair
