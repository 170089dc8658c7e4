package commands

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"keyp/storage"
	"keyp/storage/object"
)

// Waiters are the clients whose blocking command waits for keys. They belong to the event
// loop; the numbers and lines may be read anywhere.
//
// Each key has a line of waiters for each type, in order of arrival. A key that changed is ready:
// when the command that changed it has ended, the first waiter of the line for the key's type runs
// its command again, then the next, until no waiter finds anything. Ready keys are served in the
// order in which they changed; what a served command changes is served after them. A waiter leaves
// its lines only when its command has a reply. One whose command first loads other keys from disk
// keeps its place, and those behind it wait.
//
// A client that waits for a stream does not take its entries from others, and may have no use for
// the new ones. So all clients in the line run their commands again, each once.
//
// A client that waits for a lease is in the line for a missing key, and is also served when its
// owner has the lease. The first client of that line runs its command again at the deadline, by its
// own timer, which does not wait for the reaper. When the first client or the lease changes, the
// command runs at once, to learn the deadline. Nobody overtakes the clients in that line, so they
// may be served over several passes.
type Waiters struct {
	*lines
	env     *Env
	ready   []*awaited
	blocked []*awaited // by a global job: they are looked at again
	later   []*awaited // ready keys that the next pass serves
	readers []*Waiter  // room for serveReaders
	serving bool

	clients, timed atomic.Int64 // clients, and those with a timeout
}

// lines are the keys that are waited for. The loop changes them, with the mutex, and reads them
// without; others read them with it.
type lines struct {
	mu struct {
		sync.Mutex
		keys map[int]map[string]*awaited // by database and name
	}
	awaited atomic.Int64 // how many keys
	gone    atomic.Int64 // those of them with a waiter that has an answer when the key is missing (BlockedOn.Gone)
}

// WaiterHost is the event loop, as Waiters need it.
type WaiterHost interface {
	// Again runs a waiter's command once more, unless keys are being read from disk for it,
	// and removes the waiter when there is a reply.
	//
	// It reports whether the command has run; if not, the waiter is looked at again (LookAgain).
	Again(w *Waiter) bool
	// Enough reports whether the present pass has served long enough that those who can wait are
	// left to the next one.
	Enough() bool
	// Load reads a key from disk and then calls done on the loop, with false if it can't be
	// read: those that wait for it go on waiting.
	Load(k storage.Key, done func(read bool))
}

// Waiter is one waiting client.
type Waiter struct {
	Client *Client
	typ    object.Type
	timed  bool
	gone   bool // BlockedOn.Gone
	who    string
	since  int64
	places []place
}

// awaited is a key that is waited for.
type awaited struct {
	key    storage.Key
	lines  [object.TypeDelay + 1]line // by type
	places int                        // in all lines
	gone   int                        // of these, those of waiters with BlockedOn.Gone
	owners map[string]*line           // of leases: in the line for a missing key, those of each owner by prevOwn and nextOwn
	ready  bool                       // in Waiters.ready
	loads  bool                       // being read from disk
}

// line is a key's waiters for one type, the first comer first.
type line struct {
	first, last *place
	n           int
}

// place is where a waiter stands in a line. One of a key's waiters is charged with what the key
// takes.
type place struct {
	by         *Waiter
	at         *awaited
	prev, next *place
	charged    bool

	prevOwn, nextOwn *place // of the same owner
}

// ForKeys reports whether the client waits for keys, and not only for a time or the log.
func (w *Waiter) ForKeys() bool { return len(w.places) > 0 }

// Loads reports whether one of its keys has changed, and is being read from disk.
func (w *Waiter) Loads() bool {
	return slices.ContainsFunc(w.places, func(p place) bool { return p.at.loads })
}

// waiting is one of those that wait for a key.
type waiting struct {
	who    string
	client uint64
	since  int64 // Unix ms
}

// waitingFor says how many wait for a key to be of a type, or None: missing, and who the first of
// them are.
func (ls *lines) waitingFor(k storage.Key, typ object.Type, most int) (n int, first []waiting) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	p := ls.first(k, typ)
	if p == nil {
		return 0, nil
	}
	n = p.at.lines[typ].n
	for ; p != nil && len(first) < most; p = p.next {
		first = append(first, waiting{p.by.who, p.by.Client.ID, p.by.since})
	}
	return n, first
}

// mayTake reports whether a client may have what others may wait for, a missing key or the jobs of
// a delay queue: it is the first of those that wait for that, or nobody does.
func (ls *lines) mayTake(k storage.Key, typ object.Type, c *Client) bool {
	if ls.awaited.Load() == 0 {
		return true
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	first := ls.first(k, typ)
	return first == nil || first.by.Client == c
}

// first is the place of the first that waits for a key to be of a type, nil if nobody does.
func (ls *lines) first(k storage.Key, typ object.Type) *place {
	if a := ls.mu.keys[k.DB][string(k.Name)]; a != nil {
		return a.lines[typ].first
	}
	return nil
}

// charge adds what the key takes to what its client waits with.
func (p *place) charge() {
	p.charged = true
	p.by.Client.waits += p.at.bytes()
}

// Add makes a client wait, after all that wait already; in no line if it does not wait for keys.
func (ws *Waiters) Add(c *Client, wait BlockedOn) *Waiter {
	w := &Waiter{
		Client: c, typ: wait.Type, timed: wait.Timeout > 0, gone: wait.Gone, who: wait.Who, since: wait.Since,
		places: make([]place, 0, len(wait.Keys)),
	}
	c.waits += len(w.who)
	ws.lines.mu.Lock()
	for _, k := range wait.Keys {
		a := ws.await(k)
		l := &a.lines[w.typ]
		w.places = append(w.places, place{by: w, at: a, prev: l.last})
		p := &w.places[len(w.places)-1] // places does not grow: it has room for all keys
		if l.last == nil {
			l.first = p
		} else {
			l.last.next = p
		}
		l.last = p
		l.n++
		if a.places++; a.places == 1 {
			p.charge()
		}
		if w.gone {
			if a.gone++; a.gone == 1 {
				ws.lines.gone.Add(1)
			}
		}
		c.waits += int(unsafe.Sizeof(place{}))
		if w.who != "" {
			if a.owners == nil {
				a.owners = map[string]*line{}
			}
			own := a.owners[w.who]
			if own == nil {
				own = &line{first: p}
				a.owners[w.who] = own
			} else {
				p.prevOwn, own.last.nextOwn = own.last, p
			}
			own.last = p
			c.waits += ownerBytes
		}
	}
	ws.lines.mu.Unlock()
	ws.count(w, 1)
	return w
}

// ownerBytes is about what an entry of awaited.owners takes; its name is the waiter's.
const ownerBytes = 96

// bytes is about what an awaited key takes.
func (a *awaited) bytes() int {
	const overhead = int(unsafe.Sizeof(awaited{})) + 70
	return overhead + 2*len(a.key.Name)
}

// first returns a place in one of the lines, nil if there is none.
func (a *awaited) first() *place {
	for i := range a.lines {
		if p := a.lines[i].first; p != nil {
			return p
		}
	}
	return nil
}

// await returns the entry of a key, a new one if nobody waits for it yet.
func (ws *Waiters) await(k storage.Key) *awaited {
	names := ws.lines.mu.keys[k.DB]
	if names == nil {
		if ws.lines.mu.keys == nil {
			ws.lines.mu.keys = map[int]map[string]*awaited{}
		}
		names = map[string]*awaited{}
		ws.lines.mu.keys[k.DB] = names
	}
	a := names[string(k.Name)]
	if a == nil {
		k.Name = bytes.Clone(k.Name)
		a = &awaited{key: k}
		names[string(k.Name)] = a
		ws.awaited.Add(1)
	}
	return a
}

// Remove takes a waiter out of all lines. If others wait behind it for a missing key they are to be
// looked at, as the key may be missing, and nobody else may take it. So are those that wait for a
// job, which may be due. It reports whether there are such.
func (ws *Waiters) Remove(w *Waiter) (more bool) {
	ws.lines.mu.Lock()
	for i := range w.places {
		p := &w.places[i]
		l := &p.at.lines[w.typ]
		if p.prev == nil {
			if l.first = p.next; l.first != nil && (w.typ == object.None || w.typ == object.TypeDelay) {
				ws.makeReady(p.at)
				more = true
			}
		} else {
			p.prev.next = p.next
		}
		if p.next == nil {
			l.last = p.prev
		} else {
			p.next.prev = p.prev
		}
		l.n--
		if w.who != "" {
			p.leaveOwner()
		}
		if next := p.at.first(); next != nil && p.charged {
			next.charge()
		}
		if w.gone {
			if p.at.gone--; p.at.gone == 0 {
				ws.lines.gone.Add(-1)
			}
		}
		if p.at.places--; p.at.places == 0 {
			delete(ws.lines.mu.keys[p.at.key.DB], string(p.at.key.Name))
			ws.awaited.Add(-1)
		}
	}
	ws.lines.mu.Unlock()
	ws.count(w, -1)
	w.places, w.Client.waits = nil, 0
	return more
}

// leaveOwner takes a place from those of its owner.
func (p *place) leaveOwner() {
	own := p.at.owners[p.by.who]
	if p.prevOwn == nil {
		own.first = p.nextOwn
	} else {
		p.prevOwn.nextOwn = p.nextOwn
	}
	if p.nextOwn == nil {
		own.last = p.prevOwn
	} else {
		p.nextOwn.prevOwn = p.prevOwn
	}
	if own.first == nil {
		delete(p.at.owners, p.by.who)
	}
}

func (ws *Waiters) count(w *Waiter, by int) {
	ws.clients.Add(int64(by))
	if w.timed {
		ws.timed.Add(int64(by))
	}
	if w.ForKeys() {
		ws.env.Changes.Want(by)
	}
}

// changed notes that a key changed, if anybody waits for it.
func (ws *Waiters) changed(change storage.Change) {
	names := ws.lines.mu.keys[change.DB]
	if change.Key != nil {
		if a := names[string(change.Key)]; a != nil {
			ws.makeReady(a)
		}
		return
	}
	for _, a := range names {
		ws.makeReady(a)
	}
}

// LookAgain schedules another look at all keys of a waiter: it could not run, and those behind it
// waited for it.
func (ws *Waiters) LookAgain(w *Waiter) {
	for i := range w.places {
		ws.makeReady(w.places[i].at)
	}
}

func (ws *Waiters) makeReady(a *awaited) {
	if !a.ready {
		a.ready = true
		ws.ready = append(ws.ready, a)
	}
}

// Serve looks at the keys that are ready. The transaction is idle, and whatever Again does
// may use it. What that changes is served too, by this call.
func (ws *Waiters) Serve(t *storage.Txn, host WaiterHost) {
	if ws.serving {
		return
	}
	ws.serving = true
	defer func() { ws.serving = false }()
	for i := 0; i < len(ws.ready); i++ {
		a := ws.ready[i]
		a.ready = false
		if !ws.serve(a, t, host) && !a.ready {
			a.ready = true
			ws.later = append(ws.later, a)
		}
	}
	clear(ws.ready)
	if ws.ready = ws.ready[:0]; cap(ws.ready) > maxReadyKept {
		ws.ready = nil
	}
	for _, a := range ws.blocked {
		ws.makeReady(a)
	}
	ws.blocked = ws.blocked[:0]
}

// maxReadyKept bounds the room for ready keys that is kept between uses.
const maxReadyKept = 1024

// Resume lets Serve continue with what it has left for this pass.
func (ws *Waiters) Resume() {
	ws.ready = append(ws.ready, ws.later...)
	clear(ws.later)
	if ws.later = ws.later[:0]; cap(ws.later) > maxReadyKept {
		ws.later = nil
	}
}

// Left says whether Serve has left keys for the next pass.
func (ws *Waiters) Left() bool { return len(ws.later) > 0 }

// serve runs the commands again that wait for a key, until the first of the line keeps waiting. It
// reports false if the rest is left for the next pass.
func (ws *Waiters) serve(a *awaited, t *storage.Txn, host WaiterHost) bool {
	for readers := true; a.places > 0; readers = false {
		if a.lines[object.None].n > 0 && host.Enough() {
			return false
		}
		typ, owner, known := ws.env.typeOf(a.key, t)
		if !known && t.BlockedByGlobal() {
			ws.blocked = append(ws.blocked, a)
			return true
		}
		if !known {
			ws.load(a, host)
			return true
		}
		if readers && a.lines[object.TypeStream].first != nil {
			ws.serveReaders(a, typ, t, host)
			continue
		}
		first := a.lines[typ].first
		if typ == object.TypeLease {
			if first = a.waitsAs(owner); first == nil {
				first = a.lines[object.None].first
			}
		}
		if first == nil || typ == object.TypeStream {
			return true
		}
		host.Again(first.by)
		if first.by.ForKeys() {
			return true
		}
	}
	return true
}

// waitsAs returns the first that waits for the lease as its owner, nil if nobody does: it has asked
// before, on another connection that may have ended, or the lease has come from another key. It has
// its token as if it asked now.
func (a *awaited) waitsAs(owner string) *place {
	if own := a.owners[owner]; own != nil {
		return own.first
	}
	return nil
}

// serveReaders runs the commands again that wait for a stream, each once: one that finds nothing
// keeps nothing from those behind it. Where the key, of type typ, is no stream, only those run
// whose command has an answer to that.
func (ws *Waiters) serveReaders(a *awaited, typ object.Type, t *storage.Txn, host WaiterHost) {
	readers := ws.readers[:0]
	for p := a.lines[object.TypeStream].first; p != nil; p = p.next {
		if typ == object.TypeStream || p.by.gone {
			readers = append(readers, p.by)
		}
	}
	for _, w := range readers {
		if !w.ForKeys() {
			continue // it has left while others were served
		}
		if now, _, known := ws.env.typeOf(a.key, t); !known || now != typ {
			ws.makeReady(a)
			break
		}
		if !host.Again(w) {
			break // its turn comes again, and then that of those behind it
		}
	}
	clear(readers)
	if ws.readers = readers[:0]; cap(readers) > maxReadyKept {
		ws.readers = nil
	}
}

// load reads a key from disk, and then looks at it again.
func (ws *Waiters) load(a *awaited, host WaiterHost) {
	if !a.loads {
		a.loads = true
		host.Load(a.key, func(read bool) {
			a.loads = false
			if read {
				ws.makeReady(a)
			}
		})
	}
}

// Waiting says whether ready keys are left to be served.
func (ws *Waiters) Waiting() bool { return len(ws.ready) > 0 }

// typeOf returns the type of a key's value, None for a missing or expired key, and who holds a
// lease. It is not known while the key is only on disk, or blocked by a global job
// (storage.Txn.BlockedByGlobal).
func (e *Env) typeOf(k storage.Key, t *storage.Txn) (typ object.Type, owner string, known bool) {
	keys := [...]storage.Key{k}
	if !e.Store.Begin(t, keys[:]) {
		return object.None, "", false
	}
	if item, ok := t.Peek(k); ok {
		typ = item.Type()
		if l, ok := t.LeaseOf(item); ok && l.Held {
			owner = string(l.Owner)
		}
	}
	t.End()
	return typ, owner, true
}
