package main

import (
	"testing"
	"time"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// TestHandOver: a lease goes from client to client, by release and by deadline, and none has it twice in a row.
func TestHandOver(t *testing.T) {
	server := testkit.Keyp(t)
	tested := &target{addr: server.Addr()}
	for _, releases := range []bool{true, false} {
		client := tested.dial(await.Bound)
		ttl := int64(leaseHeld)
		if releases {
			ttl = await.Bound.Milliseconds()
		}
		late, err := handOver(await.Context(t), line{duration: 50 * time.Millisecond}, tested, client, await.Bound, "l"+t.Name(), ttl, releases)
		if err != nil {
			t.Errorf("releases %v: %v", releases, err)
		}
		if err := client.Del(await.Context(t), "l"+t.Name()).Err(); err != nil {
			t.Error(err)
		}
		for _, d := range late {
			if d < 0 {
				t.Errorf("releases %v: the next one has it %v before that", releases, -d)
			}
		}
		_ = client.Close()
	}
}
