package commands

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"keyp/features/leases"
	"keyp/storage"
	"keyp/storage/object"
)

// Waiters are the clients whose blocking command waits for keys. The event loop owns them; any
// goroutine may read how many there are, and for which keys they wait.
//
// Each key has a line of waiters for each type, in order of arrival. A key that changed is ready.
// When the command that changed it has ended, the first waiter in the line for the key's type runs
// its command again. Then the next one does, until a waiter finds nothing. Ready keys are served in
// the order in which they changed; keys that a served command changes come after them. A waiter
// leaves its lines only when its command has a reply. If its command first loads other keys from
// disk, the waiter stays in line, and the waiters after it wait.
//
// A client that reads a stream leaves the entries for others, and may have no use for the new ones.
// So all clients in the line run their commands again, each once.
//
// A client that waits for a lease (KEYP.LEASE) waits until the key of the lease is missing. It also
// stops waiting if the lease's owner is the name that this client gave. The first client in line
// has a timer for the lease's deadline, and does not need the reaper. It runs its command again
// when it becomes the first, and when the lease changes, to learn that deadline. The clients in
// this line may be served over several passes of the loop, and no client overtakes them.
type Waiters struct {
	*lines
	env     *Env
	ready   []*awaited
	blocked []*awaited // ready keys that a global task has locked: Serve looks at them again
	later   []*awaited // ready keys that the next pass serves
	readers []*Waiter  // reused by serveReaders
	serving bool

	clients, timed atomic.Int64 // clients, and those with a timeout
}

// lines are the keys for which clients wait. The loop changes them with the mutex and reads them
// without it. Others read them with it.
type lines struct {
	mu struct {
		sync.Mutex
		keys map[int]map[string]*awaited // by database and name
	}
	awaited atomic.Int64 // how many keys
	// Keys with a waiter whose command can reply when the key is missing (BlockedOn.Gone).
	gone atomic.Int64
}

// WaiterHost is the interface of the event loop for Waiters.
type WaiterHost interface {
	// Again runs a waiter's command once more, unless keys are being read from disk for it,
	// and removes the waiter when there is a reply.
	//
	// It reports whether the command has run. If not, the caller checks the waiter again later
	// (LookAgain).
	Again(w *Waiter) bool
	// Enough reports whether the present pass has served for long enough. The waiters that can wait
	// are then left to the next pass.
	Enough() bool
	// Load reads a key from disk and then calls done on the loop. read is false if the key cannot
	// be read; its waiters then continue to wait.
	Load(k storage.Key, done func(read bool))
}

// Waiter is one waiting client.
type Waiter struct {
	Client  *Client
	typ     object.Type
	timed   bool
	gone    bool // BlockedOn.Gone
	who     string
	since   int64
	tickets []ticket
}

// awaited is a key for which clients wait.
type awaited struct {
	key     storage.Key
	lines   [object.TypeDelay + 1]line // by type
	tickets int                        // in all lines
	gone    int                        // how many of them belong to waiters with BlockedOn.Gone
	// For leases: the places of each owner in the line for a missing key, linked by prevOwn and
	// nextOwn.
	owners map[string]*line
	ready  bool // in Waiters.ready
	loads  bool // being read from disk
}

// line is a key's waiters for one type, in order of arrival.
type line struct {
	first, last *ticket
	n           int
}

// ticket is a waiter's place in a line. One of a key's waiters is charged with the memory of the
// key.
type ticket struct {
	by         *Waiter
	at         *awaited
	prev, next *ticket
	charged    bool

	prevOwn, nextOwn *ticket // of the same owner
}

// ForKeys reports whether the client waits for keys, and not only for a time or the log.
func (w *Waiter) ForKeys() bool { return len(w.tickets) > 0 }

// Loads reports whether one of the waiter's keys has changed, and is being read from disk.
func (w *Waiter) Loads() bool {
	return slices.ContainsFunc(w.tickets, func(p ticket) bool { return p.at.loads })
}

// waiting describes one client that waits for a key.
type waiting struct {
	who    string
	client uint64
	since  int64 // Unix ms
}

// waitingFor returns how many clients wait for a key to have a type, and up to most of the first
// ones. The type None means a missing key.
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

// mayTake reports whether a client may take a missing key, or the tasks of a delay queue. It may if
// it is the first in the line for them, or if the line is empty.
func (ls *lines) mayTake(k storage.Key, typ object.Type, c *Client) bool {
	if ls.awaited.Load() == 0 {
		return true
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	first := ls.first(k, typ)
	return first == nil || first.by.Client == c
}

// first returns the first place in the line for a key and a type, or nil if the line is empty.
func (ls *lines) first(k storage.Key, typ object.Type) *ticket {
	if a := ls.mu.keys[k.DB][string(k.Name)]; a != nil {
		return a.lines[typ].first
	}
	return nil
}

// charge adds the memory of the key to the client's account (Client.waits).
func (p *ticket) charge() {
	p.charged = true
	p.by.Client.waits += p.at.bytes()
}

// Add puts a client at the end of the line of each key that it waits for. A client that does not
// wait for keys is in no line.
func (ws *Waiters) Add(c *Client, wait BlockedOn) *Waiter {
	w := &Waiter{
		Client: c, typ: wait.Type, timed: wait.Timeout > 0, gone: wait.Gone, who: wait.Who,
		since:   wait.Since,
		tickets: make([]ticket, 0, len(wait.Keys)),
	}
	c.waits += len(w.who)
	ws.lines.mu.Lock()
	for _, k := range wait.Keys {
		a := ws.await(k)
		l := &a.lines[w.typ]
		w.tickets = append(w.tickets, ticket{by: w, at: a, prev: l.last})
		p := &w.tickets[len(w.tickets)-1] // places does not grow: it has room for all keys
		if l.last == nil {
			l.first = p
		} else {
			l.last.next = p
		}
		l.last = p
		l.n++
		if a.tickets++; a.tickets == 1 {
			p.charge()
		}
		if w.gone {
			if a.gone++; a.gone == 1 {
				ws.lines.gone.Add(1)
			}
		}
		c.waits += int(unsafe.Sizeof(ticket{}))
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

// ownerBytes estimates the size of an entry of awaited.owners, without the name: that belongs to
// the waiter.
const ownerBytes = 96

// bytes estimates how much memory an awaited key takes.
func (a *awaited) bytes() int {
	const overhead = int(unsafe.Sizeof(awaited{})) + 70
	return overhead + 2*len(a.key.Name)
}

// first returns the first place in one of the lines, or nil if there is none.
func (a *awaited) first() *ticket {
	for i := range a.lines {
		if p := a.lines[i].first; p != nil {
			return p
		}
	}
	return nil
}

// await returns the entry of a key. It makes a new entry if nobody waits for the key yet.
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

// Remove removes a waiter from all lines. If it was first in a line for a missing key, or for the
// tasks of a delay queue, the next waiter becomes first. Only the first may take these, so Remove
// makes such keys ready. It reports whether there are any.
func (ws *Waiters) Remove(w *Waiter) (more bool) {
	ws.lines.mu.Lock()
	for i := range w.tickets {
		p := &w.tickets[i]
		l := &p.at.lines[w.typ]
		if p.prev == nil {
			if l.first = p.next; l.first != nil &&
				(w.typ == object.None || w.typ == object.TypeDelay) {
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
		if p.at.tickets--; p.at.tickets == 0 {
			delete(ws.lines.mu.keys[p.at.key.DB], string(p.at.key.Name))
			ws.awaited.Add(-1)
		}
	}
	ws.lines.mu.Unlock()
	ws.count(w, -1)
	w.tickets, w.Client.waits = nil, 0
	return more
}

// leaveOwner removes a place from the list of its owner.
func (p *ticket) leaveOwner() {
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

// changed makes a changed key ready, if a client waits for it.
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

// LookAgain makes all keys of a waiter ready again. Its command could not run, and the waiters
// after it wait for it.
func (ws *Waiters) LookAgain(w *Waiter) {
	for i := range w.tickets {
		ws.makeReady(w.tickets[i].at)
	}
}

func (ws *Waiters) makeReady(a *awaited) {
	if !a.ready {
		a.ready = true
		ws.ready = append(ws.ready, a)
	}
}

// Serve serves the waiters of the keys that are ready. The transaction is idle, and Again may use
// it. The same call also serves keys that become ready meanwhile.
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

// maxReadyKept bounds the capacity of the lists of ready keys that is kept between uses.
const maxReadyKept = 1024

// Resume makes the keys ready that Serve has left for the present pass.
func (ws *Waiters) Resume() {
	ws.ready = append(ws.ready, ws.later...)
	clear(ws.later)
	if ws.later = ws.later[:0]; cap(ws.later) > maxReadyKept {
		ws.later = nil
	}
}

// Left reports whether Serve has left keys for the next pass.
func (ws *Waiters) Left() bool { return len(ws.later) > 0 }

// serve reruns the commands that wait for a key, until the first in line has to wait further. It
// returns false if it leaves the remaining ones to the next pass.
func (ws *Waiters) serve(a *awaited, t *storage.Txn, host WaiterHost) bool {
	for readers := true; a.tickets > 0; readers = false {
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

// waitsAs returns the first place that waits for the lease under the name of its present owner, or
// nil if there is none. There are two cases. The owner may have asked before on a connection that
// has ended, or the lease may have come from another key. The command replies with the owner's
// token, as if it ran now.
func (a *awaited) waitsAs(owner string) *ticket {
	if own := a.owners[owner]; own != nil {
		return own.first
	}
	return nil
}

// serveReaders reruns the commands that wait for a stream, each once. A reader that finds nothing
// does not stop the readers after it. If the key is no stream but of another type typ, it reruns
// only commands that reply to that (BlockedOn.Gone).
func (ws *Waiters) serveReaders(a *awaited, typ object.Type, t *storage.Txn, host WaiterHost) {
	readers := ws.readers[:0]
	for p := a.lines[object.TypeStream].first; p != nil; p = p.next {
		if typ == object.TypeStream || p.by.gone {
			readers = append(readers, p.by)
		}
	}
	for _, w := range readers {
		if !w.ForKeys() {
			continue // it left while others were served
		}
		if now, _, known := ws.env.typeOf(a.key, t); !known || now != typ {
			ws.makeReady(a)
			break
		}
		if !host.Again(w) {
			break // its turn comes again, and then the turn of the readers after it
		}
	}
	clear(readers)
	if ws.readers = readers[:0]; cap(readers) > maxReadyKept {
		ws.readers = nil
	}
}

// load reads a key from disk and then makes it ready again.
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

// Waiting reports whether ready keys remain to be served.
func (ws *Waiters) Waiting() bool { return len(ws.ready) > 0 }

// typeOf returns the type of a key's value (None for a missing or expired key) and the owner of a
// held lease. known is false if the key is only on disk, or blocked by a global task
// (storage.Txn.BlockedByGlobal).
func (e *Env) typeOf(k storage.Key, t *storage.Txn) (typ object.Type, owner string, known bool) {
	keys := [...]storage.Key{k}
	if !e.Store.Begin(t, keys[:]) {
		return object.None, "", false
	}
	if item, ok := t.Peek(k); ok {
		typ = item.Type()
		if l, ok := leases.Of(item, t.Now()); ok && l.Held {
			owner = string(l.Owner)
		}
	}
	t.End()
	return typ, owner, true
}
