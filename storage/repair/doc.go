// Package repair reads data directories that no store could open: Inspect finds what is damaged
// (`keyp check`), Repair saves what is sound into a new directory (`keyp repair`). Neither changes
// the directory it reads, and no server may use it meanwhile.
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
// Both read with code of their own, which trusts nothing: the store relies on pages that it has
// proven. What they find sound is then opened by the store, which proves that it agrees with
// itself.
package repair
