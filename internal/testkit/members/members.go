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

// Group is a group of servers, or what is to become one.
type Group struct {
	t       testing.TB
	Servers []*testkit.Server
	proxies []*Proxy
}

// NewServer starts a server that can be a member.
func NewServer(t testing.TB, args ...string) *testkit.Server {
	t.Helper()
	return newServer(t, testkit.FreePort(t), args)
}

func newServer(t testing.TB, port int, args []string) *testkit.Server {
	return serverIn(t, "", port, args)
}

// serverIn starts a server on a directory; "" is a new one.
func serverIn(t testing.TB, dir string, port int, args []string) *testkit.Server {
	s := testkit.NewKeyp(t, testkit.Options{Dir: dir,
		Args: append([]string{"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(port),
			"--enable-debug-command", "yes", "--wal-segment-size", "256kb", "--checkpoint-log-size",
			"1mb"}, args...)})
	s.Start()
	return s
}

// New starts servers and makes them a group.
func New(t testing.TB, n int, args ...string) *Group {
	t.Helper()
	return From(t, "", n, args...)
}

// From makes a group of a server that is alone, on a directory, and of empty ones.
func From(t testing.TB, dir string, n int, args ...string) *Group {
	t.Helper()
	dirs := make([]string, n) // "" is a new one
	dirs[0] = dir
	return On(t, dirs, args...)
}

// On makes servers on directories a group; "" is a new one.
func On(t testing.TB, dirs []string, args ...string) *Group {
	t.Helper()
	g := &Group{t: t}
	for _, dir := range dirs {
		g.Servers = append(g.Servers, serverIn(t, dir, testkit.FreePort(t), args))
	}
	g.Tool(append([]string{"create"}, g.Addrs()...)...)
	return g
}

// NewBehindProxies is New with a proxy before the port of each member for others, so that Cut can
// cut connections, and SetLine slow them down.
func NewBehindProxies(t testing.TB, n int, args ...string) *Group {
	t.Helper()
	return EachBehindProxy(t, slices.Repeat([][]string{args}, n)...)
}

// EachBehindProxy is NewBehindProxies with arguments of each member's own. The first one founds the
// group.
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

// Cut cuts the connections that one member opens to another one, so that nothing comes through any
// more, in neither direction, and nobody is told so. Nil means all others.
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

// SetLine sends what one member says to another one over such a line from now on, over the
// connections that it opens and over those that it answers. Nil means all others. What is on its
// way already comes as it would have.
func (g *Group) SetLine(from, to *testkit.Server, l Line) {
	g.t.Helper()
	g.directions(from, to, func(from, to side) {
		to.proxy.cable(cableKey{from.id, false}).set(l)
		from.proxy.cable(cableKey{to.id, true}).set(l)
	})
}

// side is a member, and the proxy before it.
type side struct {
	id    uint64
	proxy *Proxy
}

// directions visits what one member says to another one. Nil means all others.
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

// id is how a member introduces itself to others.
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

// Addrs are where clients find them.
func (g *Group) Addrs() (list []string) {
	for _, s := range g.Servers {
		list = append(list, s.Addr())
	}
	return list
}

// Tool runs keyp cluster.
func (g *Group) Tool(args ...string) string {
	g.t.Helper()
	out, err := exec.CommandContext(await.Context(g.t), testkit.Binary(g.t),
		append([]string{"cluster"}, args...)...).CombinedOutput()
	if err != nil {
		g.t.Fatalf("keyp cluster %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// Client is one for clusters, that goes on asking for as long as a test waits. Of a leader that is
// gone it learns by asking for the nodes again, which it does once a minute if nothing else is
// said.
func (g *Group) Client() *redis.ClusterClient {
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: g.Addrs(), MaxRedirects: 100,
		ClusterStateReloadInterval: 100 * time.Millisecond, DialerRetries: 1,
		ReadTimeout: await.Bound, DisableIdentity: true})
	g.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Leader is who says that it leads.
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

// Follower is one that follows.
func (g *Group) Follower() *testkit.Server {
	g.t.Helper()
	leader := g.Leader()
	return g.Servers[slices.IndexFunc(g.Servers, func(s *testkit.Server) bool {
		return s != leader && s.Running()
	})]
}

// Role is what a server says that it is: master, slave, or nothing if it does not answer.
func Role(s *testkit.Server) string { return Field(s, "role") }

// Field is a field of INFO replication.
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

// Agree waits until all members have the same, and gives the digest of that.
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
