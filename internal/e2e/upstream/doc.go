// Package upstream runs go-redis's own tests against Keyp: `make test-go-redis`. What they
// demand is what Redis 7.4, 8.4, 8.6 and 8.10 do, and nobody here wrote it. docs/reference/redis.md
// lists those that fail, each with its reason; the test holds that list against what it finds, both
// ways.
package upstream
