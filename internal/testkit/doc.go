// Package testkit runs real servers for tests: Keyp, built from the tree that contains the test,
// and redis-server for comparison. Only tests import it.
//
// # Invariants
//
//   - A server belongs to the test that started it. The server is ended by its process id when that
//     test ends, and on Linux by the kernel when the test process dies (internal/childproc).
//   - Keyp is built with -race when the test runs with -race, and a race in the server fails the
//     test.
//   - The test fails if a server ends by itself, or does not end when it has to. The output of the
//     server is shown.
//   - The test cache of the go command depends on Keyp's sources. So a cached "ok" is about the
//     present Keyp.
//
// # Environment
//
//	KEYP_BIN              a keyp to run instead of building one
//	KEYP_REQUIRE_REDIS=1  tests that need redis-server or redis-cli fail without
//	                      them, instead of being skipped
//	KEYP_REQUIRE_CHROMIUM=1
//	                      tests that need a browser fail without one
//	KEYP_STRESS           the number of rounds in which the store is stressed (storage)
//	KEYP_KILLS            the number of kills in tests that kill servers; some tests take a part
//	                      or a multiple of it, or run only if it is set
//	KEYP_SEED             the seed of random numbers, a number or "random"; the tests' logs name
//	                      it, and by default it is the same each time
//	KEYP_LONG=1           tests take the time for more cases
//	KEYP_UPSTREAM=1       go-redis's own tests run (internal/e2e/upstream)
package testkit
