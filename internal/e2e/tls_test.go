package e2e

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// tlsServer starts a keyp with TLS and a plain port.
func tlsServer(t *testing.T, args ...string) (*testkit.Server, *testkit.Authority) {
	t.Helper()
	a := testkit.NewAuthority(t)
	s := testkit.NewKeyp(t, testkit.Options{TLS: a,
		Args: append(args, "--wal-segment-size", "4mb")})
	s.Start()
	return s, a
}

// bigValue is the size of the largest value that the test sends over TLS. With KEYP_TLS_LONG=1 it
// is as large as many servers allow.
func bigValue() int {
	if os.Getenv("KEYP_TLS_LONG") == "1" {
		return 64 << 20
	}
	return 2 << 20
}

// TestTLSClient runs go-redis over TLS: single commands, pipelines, transactions, scripts, blocking
// commands, messages, and values of many TLS records.
func TestTLSClient(t *testing.T) {
	t.Parallel()
	s, a := tlsServer(t)
	big := make([]byte, bigValue())
	for i := range big {
		big[i] = byte(i>>12 ^ i)
	}
	for _, proto := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", proto), func(t *testing.T) {
			c := s.ClientTLS(proto, a.Trust())
			is(t, "OK")(c.FlushAll(ctx).Result())
			is(t, "OK")(c.Set(ctx, "big", big, time.Hour).Result())
			if got, err := c.Get(ctx, "big").Bytes(); err != nil || !bytes.Equal(got, big) {
				t.Errorf("a value of %d bytes came back as %d, %v", len(big), len(got), err)
			}
			// Plain connections see the same data.
			is(t, int64(len(big)))(s.Client(proto).StrLen(ctx, "big").Result())

			pipe := c.Pipeline()
			const n = 1000
			for i := range n {
				pipe.Set(ctx, "p"+strconv.Itoa(i), i, 0)
				pipe.Get(ctx, "p"+strconv.Itoa(i))
			}
			cmds, err := pipe.Exec(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for i := range n {
				is(t, strconv.Itoa(i))(cmds[2*i+1].(*redis.StringCmd).Result())
			}
			if _, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.Incr(ctx, "n")
				p.Incr(ctx, "n")
				return nil
			}); err != nil {
				t.Error(err)
			}
			is(t, any(int64(3)))(c.Eval(ctx, "return redis.call('INCR', KEYS[1])",
				[]string{"n"}).Result())

			popped := make(chan []string, 1)
			go func() {
				got, _ := c.BLPop(ctx, time.Minute, "list").Result()
				popped <- got
			}()
			is(t, int64(1))(c.RPush(ctx, "list", "x").Result())
			if got := <-popped; len(got) != 2 || got[1] != "x" {
				t.Errorf("BLPOP gave %q", got)
			}

			sub := c.Subscribe(ctx, "channel")
			defer func() { _ = sub.Close() }()
			if _, err := sub.Receive(ctx); err != nil {
				t.Fatal(err)
			}
			for i := range 100 {
				is(t, int64(1))(c.Publish(ctx, "channel", i).Result())
			}
			for i := range 100 {
				m, err := sub.ReceiveMessage(ctx)
				if err != nil || m.Payload != strconv.Itoa(i) {
					t.Fatalf("message %d: %v, %v", i, m, err)
				}
			}
		})
	}
	s.Stop()
}

// TestTLSCertificates: with these options clients need a valid certificate, and a password too.
func TestTLSCertificates(t *testing.T) {
	t.Parallel()
	s, a := tlsServer(t, "--tls-auth-clients", "yes", "--requirepass", "secret")
	cert, key := a.Issue("client")
	foreignCert, foreignKey := testkit.NewAuthority(t).Issue("client")
	for name, cfg := range map[string]*tls.Config{"no": a.Trust(),
		"a foreign": a.Trust(foreignCert, foreignKey)} {
		if err := s.ClientTLS(3, cfg).Ping(ctx).Err(); err == nil ||
			strings.Contains(err.Error(), "NOAUTH") {
			t.Errorf("with %s certificate: %v", name, err)
		}
	}
	c := s.ClientTLS(3, a.Trust(cert, key))
	if err := c.Ping(ctx).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOAUTH") {
		t.Errorf("without a password: %v", err)
	}
	is(t, any("OK"))(c.Do(ctx, "AUTH", "secret").Result())
	s.Stop()
}

// TestTLSRedisCLI runs Redis's own programs over TLS.
func TestTLSRedisCLI(t *testing.T) {
	t.Parallel()
	s, a := tlsServer(t)
	program := testkit.Program(t, "redis-cli")
	if help, _ := exec.Command(program, "--help").CombinedOutput(); !bytes.Contains(help,
		[]byte("--tls")) {
		t.Skip("SKIPPED: this redis-cli has no TLS")
	}
	_, port, _ := strings.Cut(s.TLSAddr(), ":")
	for _, tt := range []struct{ args, input, want string }{
		{"SET k v EX 100", "", "OK\n"},
		{"-3 GET k", "", "v\n"},
		{"--pipe", strings.Repeat("SET p v\r\n", 10_000), "replies: 10000"},
	} {
		cmd := exec.Command(program, append([]string{"-p", port, "--tls", "--cacert", a.File},
			strings.Fields(tt.args)...)...)
		cmd.Stdin = strings.NewReader(tt.input)
		if got, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(got), tt.want) {
			t.Errorf("redis-cli %s: %s, %v", tt.args, got, err)
		}
	}
	s.Stop()
}

// TestTLSKills kills the server while clients write over TLS. Acknowledged writes are there
// afterwards. KEYP_TLS_LONG=1 kills the server more often.
func TestTLSKills(t *testing.T) {
	t.Parallel()
	rounds := 1
	if os.Getenv("KEYP_TLS_LONG") == "1" {
		rounds = 50
	}
	s, a := tlsServer(t)
	rng := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	const writers = 4
	var acked [writers]int64
	for round := range rounds {
		var all sync.WaitGroup
		for i := range writers {
			c := s.ClientTLS(3, a.Trust())
			all.Go(func() {
				for {
					n, err := c.Incr(ctx, "n"+strconv.Itoa(i)).Result()
					if err != nil {
						return
					}
					acked[i] = n
				}
			})
		}
		await.Pass(time.Duration(100+rng.IntN(200)) * time.Millisecond)
		s.Kill()
		all.Wait()
		s.Start()
		c := s.ClientTLS(3, a.Trust())
		for i := range writers {
			n, err := c.Get(ctx, "n"+strconv.Itoa(i)).Int64()
			if errors.Is(err, redis.Nil) {
				err = nil // the first one had no reply
			}
			// The last command may have run although its reply did not arrive.
			if err != nil || n < acked[i] || n > acked[i]+1 {
				t.Fatalf("round %d: n%d is %d, %v, acknowledged was %d", round, i, n, err, acked[i])
			}
			acked[i] = n
		}
	}
	t.Logf("%d kills, %d writes were acknowledged", rounds, acked[0]+acked[1]+acked[2]+acked[3])
	s.Stop()
}
