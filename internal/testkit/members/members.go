// Package members starts groups of real servers on this machine.
package members

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
)

// Group is a group of servers, or servers that are to become one.
type Group struct {
	t       testing.TB
	Servers []*testkit.Server
	proxies []*Proxy
}

// NewServer starts a server that can become a member of a group.
func NewServer(t testing.TB, args ...string) *testkit.Server {
	t.Helper()
	return newServer(t, testkit.FreePort(t), args)
}

func newServer(t testing.TB, port int, args []string) *testkit.Server {
	return serverIn(t, "", port, args)
}

// serverIn starts a server with the data directory dir; "": a new one.
func serverIn(t testing.TB, dir string, port int, args []string) *testkit.Server {
	s := testkit.NewKeyp(t, testkit.Options{Dir: dir,
		Args: append([]string{"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(port),
			"--enable-debug-command", "yes", "--wal-segment-size", "256kb", "--checkpoint-log-size",
			"1mb"}, args...)})
	s.Start()
	return s
}

// New starts n servers and makes them a group.
func New(t testing.TB, n int, args ...string) *Group {
	t.Helper()
	return From(t, "", n, args...)
}

// From makes a group of a server with the data directory dir ("": a new one) and n-1 empty servers.
// The first server must be in no group.
func From(t testing.TB, dir string, n int, args ...string) *Group {
	t.Helper()
	dirs := make([]string, n) // "" is a new one
	dirs[0] = dir
	return On(t, dirs, args...)
}

// On starts a server for each data directory and makes them a group; "": a new directory.
func On(t testing.TB, dirs []string, args ...string) *Group {
	t.Helper()
	g := &Group{t: t}
	for _, dir := range dirs {
		g.Servers = append(g.Servers, serverIn(t, dir, testkit.FreePort(t), args))
	}
	g.Tool(append([]string{"create"}, g.Addrs()...)...)
	return g
}

// NewBehindProxies is like New, but there is a proxy in front of the port of each member for
// others. So Cut can cut connections, and SetLine can slow them down.
func NewBehindProxies(t testing.TB, n int, args ...string) *Group {
	t.Helper()
	return EachBehindProxy(t, slices.Repeat([][]string{args}, n)...)
}

// EachBehindProxy is like NewBehindProxies, but each member has its own arguments. The first one
// founds the group.
func EachBehindProxy(t testing.TB, args ...[]string) *Group {
	t.Helper()
	g := &Group{t: t}
	seed := testkit.Seed(t)
	for i, own := range args {
		port := testkit.FreePort(t)
		p := newProxy(t, port, seed+uint64(i))
		g.proxies = append(g.proxies, p)
		g.Servers = append(g.Servers, newServer(t, port,
			append([]string{"--cluster-announce-bus-port", strconv.Itoa(p.port)}, own...)))
	}
	g.Tool(append([]string{"create"}, g.Addrs()...)...)
	return g
}

// Cut cuts the connections that one member opens to another one. Nothing passes in either
// direction, and neither end gets an error. Nil means all others.
func (g *Group) Cut(from, to *testkit.Server) {
	g.t.Helper()
	g.directions(from, to, func(from, to side) { to.proxy.cut(from.id) })
}

// Heal ends all cuts.
func (g *Group) Heal() {
	for _, p := range g.proxies {
		p.heal()
	}
}

// SetLine sets the line for everything that one member sends to another one, over the connections
// that it opens and those that it accepts. Nil means all others. Data that is already on its way is
// not affected.
func (g *Group) SetLine(from, to *testkit.Server, l Line) {
	g.t.Helper()
	g.directions(from, to, func(from, to side) {
		to.proxy.cable(cableKey{from.id, false}).set(l)
		from.proxy.cable(cableKey{to.id, true}).set(l)
	})
}

// side is a member and the proxy in front of it.
type side struct {
	id    uint64
	proxy *Proxy
}

// directions calls do for each sender and receiver. Nil means all others.
func (g *Group) directions(from, to *testkit.Server, do func(from, to side)) {
	g.t.Helper()
	sides := make([]side, len(g.Servers))
	for i, s := range g.Servers {
		sides[i] = side{g.id(s), g.proxies[i]}
	}
	for i, s := range g.Servers {
		for j, other := range g.Servers {
			if i != j && (from == nil || from == s) && (to == nil || to == other) {
				do(sides[i], sides[j])
			}
		}
	}
}

// id returns the id by which a member introduces itself to others.
func (g *Group) id(s *testkit.Server) uint64 {
	g.t.Helper()
	var d struct{ ID uint64 }
	text, err := os.ReadFile(filepath.Join(s.Dir(), "member.json"))
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil || d.ID == 0 {
		g.t.Fatalf("who a member is: %s, %v", text, err)
	}
	return d.ID
}

// Addrs returns the addresses of the servers for clients.
func (g *Group) Addrs() (list []string) {
	for _, s := range g.Servers {
		list = append(list, s.Addr())
	}
	return list
}

// Tool runs `keyp cluster` and returns its output. A failure fails the test.
func (g *Group) Tool(args ...string) string {
	g.t.Helper()
	out, err := exec.CommandContext(await.Context(g.t), testkit.Binary(g.t),
		append([]string{"cluster"}, args...)...).CombinedOutput()
	if err != nil {
		g.t.Fatalf("keyp cluster %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// Client returns a client for clusters, which tries again for as long as a test waits. It asks for
// the nodes every 100 ms, instead of go-redis's longer interval, to learn of a new leader soon.
func (g *Group) Client() *redis.ClusterClient {
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: g.Addrs(), MaxRedirects: 100,
		ClusterStateReloadInterval: 100 * time.Millisecond, DialerRetries: 1,
		ReadTimeout: await.Bound, DisableIdentity: true})
	g.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Leader waits until a running member says that it leads, and returns it.
func (g *Group) Leader() *testkit.Server {
	g.t.Helper()
	var found *testkit.Server
	await.Until(g.t, "a member leads", func() bool {
		found = nil
		for _, s := range g.Servers {
			if s.Running() && Role(s) == "master" {
				found = s
			}
		}
		return found != nil
	})
	return found
}

// Follower returns a running member that is not the leader.
func (g *Group) Follower() *testkit.Server {
	g.t.Helper()
	leader := g.Leader()
	return g.Servers[slices.IndexFunc(g.Servers, func(s *testkit.Server) bool {
		return s != leader && s.Running()
	})]
}

// Role returns the role that a server reports: master, slave, or "" if it does not answer.
func Role(s *testkit.Server) string { return Field(s, "role") }

// Field returns a field of INFO replication; "" if there is none or the server does not answer.
func Field(s *testkit.Server, name string) string {
	conn, err := await.Dial("tcp", s.Addr())
	if err != nil {
		return ""
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("INFO replication\r\nQUIT\r\n")); err != nil {
		return ""
	}
	text, _ := io.ReadAll(conn) // what is cut has no such field
	_, rest, _ := strings.Cut(string(text), "\r\n"+name+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// Agree waits until all members have the same data, and returns its digest.
func (g *Group) Agree() string {
	g.t.Helper()
	var digests []string
	await.Until(g.t, "all members have the same", func() bool {
		digests = digests[:0]
		for _, s := range g.Servers {
			d, err := s.Client(2).Do(await.Context(g.t), "debug", "digest").Text()
			if err != nil {
				return false
			}
			digests = append(digests, d)
		}
		return len(slices.Compact(slices.Clone(digests))) == 1
	})
	return digests[0]
}
