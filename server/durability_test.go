package server

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"keyp/internal/testkit"
	"keyp/internal/testkit/await"
	"keyp/internal/vfs"
	"keyp/storage"
)

// disk is a file system whose syncs can be made slow, held back or fail.
type disk struct {
	delay atomic.Int64
	gate  atomic.Pointer[chan struct{}]
	fail  atomic.Bool
}

var errDisk = errors.New("the disk is gone")

func (d *disk) use(o *storage.Options) {
	o.FS = vfs.Inject(vfs.OS, func(op vfs.Op, _ string, _ int64, _ int) error {
		if op != vfs.OpSync {
			return nil
		}
		await.Pass(time.Duration(d.delay.Load()))
		if gate := d.gate.Load(); gate != nil {
			<-*gate
		}
		if d.fail.Load() {
			return errDisk
		}
		return nil
	})
}

// hold makes syncs wait until release is called.
func (d *disk) hold() (release func()) {
	gate := make(chan struct{})
	d.gate.Store(&gate)
	return func() {
		d.gate.Store(nil)
		close(gate)
	}
}

// slowDisk makes syncs slow and waits until the server has measured that. After that the event loop
// no longer waits for syncs.
func slowDisk(t *testing.T, ts *testServer, d *disk) {
	t.Helper()
	d.delay.Store(int64(3 * time.Millisecond))
	c := ts.dial()
	await.Until(t, "syncs are slow", func() bool {
		c.do("INCR warm")
		return ts.store.Log().SyncCost() > slowSync
	})
}

// TestNothingUndurableLeaves delays a sync. The write's reply waits, and so does every reply that
// shows the write. Reads of durable keys go on.
func TestNothingUndurableLeaves(t *testing.T) {
	t.Run("plain", func(t *testing.T) {
		d := &disk{}
		ts := start(t, d.use)
		nothingUndurableLeaves(t, ts, d, ts.dial)
	})
	t.Run("TLS", func(t *testing.T) {
		d, a := &disk{}, testkit.NewAuthority(t)
		ts := startTLS(t, a, d.use)
		nothingUndurableLeaves(t, ts, d, func() *client { return ts.mustDialTLS(a.Trust()) })
	})
}

func nothingUndurableLeaves(t *testing.T, ts *testServer, d *disk, dial func() *client) {
	reader, seer, c := dial(), dial(), dial()
	reader.do("SET clean 1")
	slowDisk(t, ts, d)
	release := d.hold()

	c.send("GET clean\nSET a 1\nGET clean\n")
	c.expect("1") // before the write in order, and clean
	await.Until(t, "the write has run", func() (ran bool) {
		ts.onLoop(func(l *loop) { ran = len(l.waiting) == 1 })
		return ran
	})
	seer.send("GET a\n")
	await.Until(t, "the reader of a waits too", func() (waits bool) {
		ts.onLoop(func(l *loop) { waits = len(l.waiting) == 2 })
		return waits
	})
	for range 20 {
		if got := reader.do("GET clean"); got != "1" {
			t.Fatal(got)
		}
	}
	if n := c.r.Buffered() + seer.r.Buffered(); n > 0 {
		t.Fatalf("%d bytes left before they were durable", n)
	}
	c.silent(ts)
	release()
	c.expect("+OK", "1")
	seer.expect("1")
}

// TestGoneIsDurable: a reply may show that a key is gone, by a timeout, a count or a missing name.
// Such a reply also waits until the deletion is durable in the log.
func TestGoneIsDurable(t *testing.T) {
	d := &disk{}
	ts := start(t, d.use)
	c, waits := ts.dial(), []*client{ts.dial(), ts.dial(), ts.dial(), ts.dial()}
	c.do("RPUSH l a")
	slowDisk(t, ts, d)
	release := sync.OnceFunc(d.hold())
	defer release() // else the server could not end
	c.send("DEL l\n")
	waiting := func(n int, w *client) {
		t.Helper()
		await.Until(t, "a reply waits", func() (waits bool) {
			ts.onLoop(func(l *loop) { waits = len(l.waiting) == n })
			return waits || w.heard()
		})
	}
	waiting(1, c)
	for i, command := range []string{"BLPOP l 0.01", "INFO keyspace", "DBSIZE", "MEMORY STATS"} {
		waits[i].send(command + "\n")
		waiting(2+i, waits[i])
		waits[i].silent(ts)
	}
	release()
	c.expect(":1")
	waits[0].expect("*-1")
}

// TestLongRepliesLeaveEarly: long replies are sent before the end of a turn, but not before the log
// is durable.
func TestLongRepliesLeaveEarly(t *testing.T) {
	d := &disk{}
	ts := start(t, d.use)
	c := ts.dial()
	long := strings.Repeat("v", earlyOutput)
	c.raw(multibulk("SET", "long", long))
	c.expect("+OK")

	c.send("GET long\nGET long\nCLIENT INFO\n")
	c.expect(long, long)
	_, info, _ := strings.Cut(c.reply(), " omem=")
	if held, err := strconv.Atoi(strings.Fields(info)[0]); err != nil || held >= 2*earlyOutput {
		t.Errorf("%d bytes were held (%v) behind two replies of %d", held, err, earlyOutput)
	}

	slowDisk(t, ts, d)
	release := d.hold()
	c.send("GET long\nINCR n\nGET long\nGET long\n")
	c.expect(long)
	await.Until(t, "the rest has run", func() (ran bool) {
		ts.onLoop(func(l *loop) {
			ran = len(l.waiting) == 1 && l.waiting[0].out.pending() > 2*earlyOutput
		})
		return ran
	})
	if n := c.r.Buffered(); n > 0 {
		t.Errorf("%d bytes left before they were durable", n)
	}
	release()
	c.expect(":1", long, long)
}

// TestManyClientsOnSlowDisk: every reply arrives, in order.
func TestManyClientsOnSlowDisk(t *testing.T) {
	d := &disk{}
	ts := start(t, d.use)
	slowDisk(t, ts, d)
	ts.onLoop(withoutCron)
	var list []*client
	for range 20 {
		list = append(list, ts.dial())
	}
	for range 20 {
		for _, c := range list {
			c.send("SET own 1\nGET clean\nINCR n\nGET own\n")
		}
		for _, c := range list {
			c.expect("+OK", "$-1")
			if got := c.reply(); got[0] != ':' {
				t.Fatal(got)
			}
			c.expect("1")
		}
	}
	if got := list[0].do("GET n"); got != "400" {
		t.Fatalf("n is %s", got)
	}
}

// TestFailedLogStopsTheServer: a write whose sync fails is never acknowledged, and the server
// stops.
func TestFailedLogStopsTheServer(t *testing.T) {
	for _, slow := range []bool{false, true} {
		d := &disk{}
		ts := start(t, d.use)
		if slow {
			slowDisk(t, ts, d)
		}
		c := ts.dial()
		c.do("SET a 1")
		d.fail.Store(true)
		c.send("SET a 2\nGET a\n")
		if got := c.reply(); got[0] != '(' {
			t.Fatalf("slow %v: a write that is not durable was answered: %q", slow, got)
		}
		if err := await.For(t, "the server ends", ts.done); !errors.Is(err, errDisk) {
			t.Fatalf("slow %v: Run gave %v", slow, err)
		}
	}
}

// TestCleanStop: at a clean stop, running commands get their replies, and commands that were held
// back run. After a restart all acknowledged writes are there.
func TestCleanStop(t *testing.T) {
	dir := t.TempDir()
	g := &unlockedGate{}
	ts, err := prepareServer(t, dir, []string{"127.0.0.1:0"}, g.use)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { ts.done <- ts.Run(ctx) }()
	slow, held, c := ts.dial(), ts.dial(), ts.dial()
	slow.send("SET a 1\nRANDOMKEY\n")
	slow.expect("+OK")
	c.do("CLIENT PAUSE 100000 WRITE")
	held.send("SET b 2\n")
	await.Until(t, "a command runs and one is held", func() (both bool) {
		ts.onLoop(func(l *loop) { both = l.tasks.count == 1 && len(l.waitlist) == 1 })
		return both
	})
	c.send("SHUTDOWN NOSAVE\n")
	await.Until(t, "the stop begins", func() (stopping bool) {
		ts.onLoop(func(l *loop) { stopping = l.stopping })
		return stopping
	})
	close(g.gate)
	slow.expect("+OK", "(eof)")
	held.expect("+OK", "(eof)")
	c.expect("(eof)")
	if err := await.For(t, "the server stops", ts.done); err != nil {
		t.Fatal(err)
	}
	if ts.SaveAtExit() {
		t.Error("NOSAVE is not remembered")
	}
	if err := ts.store.Close(ts.SaveAtExit()); err != nil {
		t.Fatal(err)
	}

	again, err := prepareServer(t, dir, []string{"127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	again.run()
	after := again.dial()
	after.send("GET a\nGET b\n")
	after.expect("1", "2")
}

// TestStopIsBounded: a client that reads nothing cannot keep the server from stopping.
func TestStopIsBounded(t *testing.T) {
	ts := start(t)
	c := ts.dial()
	c.raw(multibulk("SET", "k", strings.Repeat("x", 16<<20)))
	c.expect("+OK")
	c.raw(multibulk("GET", "k"))
	await.Until(t, "the reply is stuck", func() (stuck bool) {
		ts.onLoop(func(l *loop) {
			for _, s := range l.sessions {
				stuck = stuck || s != nil && s.full
			}
		})
		return stuck
	})
	ts.stop()
	if err := await.For(t, "the server stops", ts.done); err != nil {
		t.Fatal(err)
	}
	ts.done <- nil
}

// TestKeysAreLoaded reads keys that are only in the data file, in pipelines whose replies must stay
// in order.
func TestKeysAreLoaded(t *testing.T) {
	dir := t.TempDir()
	fill := func(o *storage.Options) { o.SegmentSize = 1 << 20 }
	ts, err := prepareServer(t, dir, []string{"127.0.0.1:0"}, fill)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ts.done <- ts.Run(ctx) }()
	c := ts.dial()
	const n = 600
	for i := range n {
		c.raw(multibulk("SET", key(i), "value of "+key(i)))
	}
	for range n {
		c.expect("+OK")
	}
	cancel()
	if err := await.For(t, "the server stops", ts.done); err != nil {
		t.Fatal(err)
	}
	if err := ts.store.Close(true); err != nil {
		t.Fatal(err)
	}

	// A store over its memory limit loads nothing by itself, so every read of a key waits.
	again, err := prepareServer(t, dir, []string{"127.0.0.1:0"}, fill,
		func(o *storage.Options) { o.MaxMemory = 1 })
	if err != nil {
		t.Fatal(err)
	}
	again.run()
	list := []*client{again.dial(), again.dial(), again.dial()}
	for _, c := range list {
		go func() {
			for i := range n {
				c.raw(multibulk("GET", key(i)) + multibulk("STRLEN", key(i)) + "PING\r\n")
			}
		}()
	}
	for _, c := range list {
		for i := range n {
			want := "value of " + key(i)
			c.expect(want, ":"+strconv.Itoa(len(want)), "+PONG")
		}
	}
	if again.store.Stats().Loads == 0 {
		t.Fatal("no key was loaded: the test shows nothing")
	}
}

func key(i int) string { return "key:" + strconv.Itoa(i) }
