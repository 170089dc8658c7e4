package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
)

// The suite runs every step against Keyp, over RESP2 and RESP3. To check the suite itself, it also
// runs against a real redis-server, so its expectations are what Redis does.

// feature is a sub-test of a family. It starts with all databases empty.
type feature struct {
	name string
	run  func(t *testing.T, s subject)
	// newer is the version of Redis that introduced this feature. It is empty if redis-server
	// 7.0.15 has the feature.
	newer string
}

// subject is a server under test and a client of it.
type subject struct {
	*redis.Client
	server *testkit.Server
	proto  int
	keyp   bool
	began  time.Time // the feature, with all databases empty
}

// family runs its features against every server and protocol.
func family(t *testing.T, features []feature) {
	servers := []struct {
		name  string
		keyp  bool
		start func(testing.TB, ...string) *testkit.Server
	}{
		{"keyp", true, testkit.Keyp},
		{"redis-server", false, func(t testing.TB, args ...string) *testkit.Server {
			return testkit.Redis(t, append(args, "--enable-debug-command", "yes")...)
		}},
	}
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			running := server.start(t)
			if server.keyp {
				wantEverything(t, running)
			}
			for _, proto := range []int{2, 3} {
				t.Run(fmt.Sprintf("RESP%d", proto), func(t *testing.T) {
					s := subject{Client: running.Client(proto), server: running, proto: proto,
						keyp: server.keyp}
					s.AddHook(recorder{s.keyp})
					for _, f := range features {
						if f.newer != "" && !s.keyp {
							continue
						}
						is(t, "OK")(s.FlushAll(ctx).Result())
						s.began = time.Now()
						t.Run(f.name, func(t *testing.T) { f.run(t, s) })
					}
				})
			}
			running.Stop()
		})
	}
}

// ctx is the context of every call. The client's own timeouts limit the calls.
var ctx = context.Background()

// is checks a typed result: is(t, "OK")(c.Set(…).Result()).
func is[T any](t *testing.T, want T) func(T, error) {
	t.Helper()
	return func(got T, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("error %v, want %v", err, want)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("got %#v, want %#v", got, want)
		}
	}
}

// age returns an upper limit for the age of anything that the feature has made. It adds a second,
// since some replies are in seconds.
func (s subject) age() time.Duration { return time.Since(s.began) + time.Second }

// justUsed checks that a key was accessed in this feature.
func justUsed(t *testing.T, s subject, key string) {
	t.Helper()
	if idle, err := s.ObjectIdleTime(ctx, key).Result(); err != nil || idle < 0 || idle > s.age() {
		t.Errorf("%s is idle for %v, %v", key, idle, err)
	}
}

// expires checks that a key has the time to live that this feature has set.
func expires(t *testing.T, s subject, key string, want time.Duration) {
	t.Helper()
	if got, err := s.PTTL(ctx, key).Result(); err != nil || got > want || got < want-s.age() {
		t.Errorf("%s expires in %v, %v, want %v", key, got, err, want)
	}
}

// persists checks that a key exists and has no deadline.
func persists(t *testing.T, s subject, key string) {
	t.Helper()
	const noDeadline = time.Duration(-1) // as go-redis gives it
	is(t, noDeadline)(s.PTTL(ctx, key).Result())
}

// gone checks that a key does not exist.
func gone(t *testing.T, s subject, key string) {
	t.Helper()
	missing(t, s.Get(ctx, key))
	is(t, int64(0))(s.Exists(ctx, key).Result())
	is(t, time.Duration(-2))(s.PTTL(ctx, key).Result())
}

// fails checks that a command is refused with exactly this text.
func fails(t *testing.T, want string, cmd redis.Cmder) {
	t.Helper()
	if err := cmd.Err(); err == nil || err.Error() != want {
		t.Errorf("%v: error %v, want %s", cmd.Args(), err, want)
	}
}

// missing checks for a null reply.
func missing(t *testing.T, cmd redis.Cmder) {
	t.Helper()
	if err := cmd.Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("%v: %v, want a null reply", cmd.Args(), err)
	}
}

// do sends any command and returns its reply as go-redis decodes it.
func (s subject) do(words ...any) (any, error) { return s.Do(ctx, words...).Result() }

// sent has the commands, with subcommands, that the suite has sent to Keyp, and all commands that
// Keyp has.
var sent struct {
	sync.Mutex
	names  map[string]bool
	wanted []string
}

// wantEverything records the commands that a server lists, which the suite has to send.
func wantEverything(t *testing.T, keyp *testkit.Server) {
	list, err := keyp.Client(3).CommandList(ctx, nil).Result()
	if err != nil || len(list) == 0 {
		t.Fatalf("COMMAND LIST: %d commands, %v", len(list), err)
	}
	sent.Lock()
	defer sent.Unlock()
	sent.wanted = list
}

// recorder records the commands that a client sends.
type recorder struct{ on bool }

func (r recorder) note(cmd redis.Cmder) {
	if !r.on {
		return
	}
	sent.Lock()
	defer sent.Unlock()
	if sent.names == nil {
		sent.names = map[string]bool{}
	}
	args := cmd.Args()
	name := strings.ToLower(fmt.Sprint(args[0]))
	sent.names[name] = true
	if len(args) > 1 {
		sent.names[name+"|"+strings.ToLower(fmt.Sprint(args[1]))] = true
	}
}

func (r recorder) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		return next(ctx, network, addr)
	}
}

func (r recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.note(cmd)
		return next(ctx, cmd)
	}
}

func (r recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			r.note(cmd)
		}
		return next(ctx, cmds)
	}
}

// TestMain runs the tests in any order. Then it checks that the go-redis suite has sent every
// command of the server, unless only some of the tests were selected.
func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if everyTest() { // also if a test failed: it may run once more, alone, and this would not
		for _, name := range sent.wanted {
			if !sent.names[name] {
				fmt.Printf("FAIL: the go-redis suite never sends %s\n", name)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// everyTest returns true if no flag selects some of the tests.
func everyTest() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return true
}
