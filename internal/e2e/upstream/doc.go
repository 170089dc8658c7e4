// Package upstream runs go-redis's own tests against Keyp: `make test-go-redis`. They check the
// behaviour of Redis 7.4, 8.4, 8.6 and 8.10, and were written outside this project.
// docs/reference/redis.md lists the tests that fail, each with its reason. The test compares that
// list with its results, in both directions.
package upstream
