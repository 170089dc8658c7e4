package commands

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"keyp/resp"
	"keyp/storage"
)

// Tracking informs clients about changes of keys that they may have in their own caches (CLIENT
// TRACKING). It remembers which client has read which key. Like Redis it uses only the key's name:
// keys with the same name in different databases count as one. For clients that ask for all keys
// with some prefix (BCAST) it remembers no reads. It informs them once in each pass of the loop.
//
// No client is left with an old value:
//
//   - The keys that a command reads are remembered before its transaction ends, so a later change
//     finds them.
//   - When a command ends, first the keys that it changed are forgotten, and then those that it
//     read are remembered. So within EXEC or a script a key that was read is forgotten only if it
//     changed after the read. Changes by the reaper, which belong to no command, come by way of
//     Changes.
//   - A message about a key may be due while a command of the client runs. The server then sends it
//     after the reply of that command, and only when the change is durable.
//
// Any goroutine may run a command, so mu guards all fields. The loop sends the messages. It locks
// mu only while it lists them: a connection that takes a message may ask Tracking about its client,
// which locks mu, too.
type Tracking struct {
	env    *Env
	active atomic.Bool // somebody tracks
	max    atomic.Int64

	mu struct {
		sync.Mutex
		trackers map[uint64]*tracker // by the client's id
		keys     map[string]readers  // the clients that may have the key in their caches
		items    int                 // of all keys together
		bytes    int                 // of keys
		prefixes []*prefix           // sorted
		pending  bool                // some prefix has keys that were not sent yet
	}
}

// trackMode are CLIENT TRACKING's options and state.
type trackMode uint8

const (
	trackBcast trackMode = 1 << iota
	trackOptIn
	trackOptOut
	trackNoLoop
	trackCaching // CLIENT CACHING was the last command
	trackBroken  // the client to which messages are redirected is gone
)

// is reports whether any of the flags in any is set.
func (m trackMode) is(any trackMode) bool { return m&any != 0 }

// tracker is a client that tracks.
type tracker struct {
	mode     trackMode
	redirect uint64   // the client to which messages go; 0: itself
	prefixes []string // of BCAST, sorted
	bytes    int      // of the prefixes
}

// prefix is a prefix of keys that clients with BCAST ask for.
type prefix struct {
	text    string
	clients map[uint64]bool
	// keys changed since the last Broadcast, each by the client that changed it last.
	keys map[string]uint64
	lsn  uint64 // with which all of that is durable
}

// hit is a key whose readers must be informed. If all is set, every tracking client learns that any
// key may have changed.
type hit struct {
	key     string
	all     bool
	by      uint64 // the client that changed it; 0: nobody
	readers readers
}

// hitBytes estimates how much memory hits take.
func hitBytes(hits []hit) (n int) {
	for i := range hits {
		n += int(unsafe.Sizeof(hits[i])) + len(hits[i].key) + hits[i].readers.bytes()
	}
	return n
}

// evictTurn bounds how many keys leave a table that is too large with one command.
const evictTurn = 1000

func (t *Tracking) init(e *Env) {
	t.env, t.mu.trackers, t.mu.keys = e, map[uint64]*tracker{}, map[string]readers{}
}

// ran records the keys that a command changed and read. It is called before the transaction ends;
// done is false if the command is going to run again.
func (t *Tracking) ran(c *Ctx, done bool) {
	if !t.active.Load() {
		return
	}
	var news []storage.Change
	if c.Txn != nil {
		c.Txn.FlushValues()
		news = c.Txn.News()
	}
	t.mu.Lock()
	hits := t.take(nil, news)
	most := evictTurn
	if tr := t.mu.trackers[c.Client.ID]; tr != nil && done {
		if c.Spec.Is(ReadOnly) && c.Spec.Group != Scripting {
			most += t.remember(c.Client.ID, tr, c.Keys)
		}
		if c.endsCaching() {
			tr.mode &^= trackCaching
		}
	}
	hits = t.evict(hits, most)
	t.mu.Unlock()
	if sent := hits; len(sent) > 0 {
		c.Emit(hitBytes(sent), func(lsn uint64) { t.send(sent, lsn) })
	}
}

// ranIn is ran for one transaction of a task of scope Unlocked, before it ends. The task may have
// further transactions.
func (t *Tracking) ranIn(c *Ctx, txn *storage.Txn) {
	c.Txn = txn
	t.ran(c, false)
	c.Txn = nil
}

// endsCaching reports whether an earlier CLIENT CACHING applied to this command. It applies to the
// next command that is not CLIENT, or within a transaction to EXEC.
func (c *Ctx) endsCaching() bool {
	if c.Nested || c.Spec.parent != nil && c.Spec.parent.Name == "CLIENT" {
		return false
	}
	// The loop owns the queue of a global task's client.
	return c.Scope == Global || c.Client.queue == nil
}

// changed informs the readers of keys that no client's command changed, such as those that the
// reaper removed.
func (t *Tracking) changed(changes []storage.Change) {
	if !t.active.Load() {
		return
	}
	for i := range changes {
		if changes[i].By != 0 {
			continue // ran has seen it
		}
		t.mu.Lock()
		hits := t.take(nil, changes[i:i+1])
		t.mu.Unlock()
		t.send(hits, changes[i].LSN)
	}
}

// take removes changed keys from the table. It adds a key to hits if the server must inform a
// client of the change. A client with NOLOOP stays in the table for keys that it changes itself.
func (t *Tracking) take(hits []hit, changes []storage.Change) []hit {
	for i := range changes {
		c := &changes[i]
		if c.Same {
			continue
		}
		if c.Key == nil {
			if n := len(hits); n == 0 || !hits[n-1].all {
				hits = append(hits, hit{all: true})
			}
			clear(t.mu.keys)
			t.mu.items, t.mu.bytes = 0, 0
			continue
		}
		known, ok := t.mu.keys[string(c.Key)]
		if !ok && !t.broadcasts(c.Key) {
			continue
		}
		h := hit{key: string(c.Key), by: c.By, readers: known}
		if c.Due {
			h.by = 0
		}
		t.forget(h.key)
		if tr := t.mu.trackers[h.by]; tr != nil && tr.mode.is(trackNoLoop) && h.readers.has(h.by) {
			t.note(h.key, h.by)
		}
		hits = append(hits, h)
	}
	return hits
}

// remember records that a client has read keys. It returns the minimum number of other keys that
// must leave the table for them.
func (t *Tracking) remember(id uint64, tr *tracker, keys []storage.Key) (room int) {
	caching := tr.mode.is(trackCaching)
	if tr.mode.is(trackBcast) || tr.mode.is(trackOptIn) && !caching ||
		tr.mode.is(trackOptOut) && caching {
		return 0
	}
	before := t.mu.bytes
	for _, k := range keys {
		if !t.mu.keys[string(k.Name)].has(id) {
			t.note(string(k.Name), id)
		}
	}
	return len(keys) + (t.mu.bytes-before)/entryBytes
}

// evict removes up to most keys from a table that is too large. They become hits, because their
// readers cannot be informed later.
func (t *Tracking) evict(hits []hit, most int) []hit {
	for n := 0; n < most && t.tooLarge(); n++ {
		for key, r := range t.mu.keys { // one of them, whichever
			hits = append(hits, hit{key: key, readers: r})
			t.forget(key)
			break
		}
	}
	return hits
}

// keyBytes is the average memory that a key and its readers may take. The bound of the table's
// memory is keyBytes times its largest number of keys.
const keyBytes = 512

// tooLarge reports whether the table exceeds tracking-table-max-keys, in keys or in bytes.
func (t *Tracking) tooLarge() bool {
	limit, n := t.max.Load(), int64(len(t.mu.keys))
	return limit > 0 && (n > limit || n > 1 && int64(t.mu.bytes)/keyBytes > limit)
}

// note adds a client to a key's readers.
func (t *Tracking) note(key string, id uint64) {
	r, known := t.mu.keys[key]
	if known {
		t.mu.bytes -= r.bytes()
	} else {
		t.mu.bytes += entryBytes + len(key)
	}
	if r.add(id) {
		t.mu.keys[key] = r
		t.mu.items++
	}
	t.mu.bytes += r.bytes()
}

// forget removes a key from the table.
func (t *Tracking) forget(key string) {
	r, known := t.mu.keys[key]
	if !known {
		return
	}
	t.mu.items -= r.len()
	t.mu.bytes -= entryBytes + len(key) + r.bytes()
	delete(t.mu.keys, key)
}

// broadcasts reports whether a client asks for all keys with some prefix of the key.
func (t *Tracking) broadcasts(key []byte) bool {
	return slices.ContainsFunc(t.mu.prefixes, func(p *prefix) bool {
		return bytes.HasPrefix(key, []byte(p.text))
	})
}

// notice is a message to a client.
type notice struct {
	to      *Client
	lsn     uint64
	message []byte
}

// notices are messages in their order.
type notices []notice

// push sends the messages. mu is not locked.
func (list notices) push() {
	for _, n := range list {
		n.to.Conn.Push(n.lsn, n.message)
	}
}

// send informs the clients of hits, after the log is durable up to lsn. The loop calls it.
func (t *Tracking) send(hits []hit, lsn uint64) { t.noticesOf(hits, lsn).push() }

// noticesOf returns the messages about hits, except those of BCAST: they wait for Broadcast.
func (t *Tracking) noticesOf(hits []hit, lsn uint64) (list notices) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range hits {
		h := &hits[i]
		m := &invalidation{lsn: lsn}
		if h.all {
			for id, tr := range t.mu.trackers {
				list = t.notify(list, id, tr, m)
			}
			continue
		}
		m.keys = []string{h.key}
		for id := range h.readers.all {
			tr := t.mu.trackers[id]
			if tr == nil || tr.mode.is(trackBcast) || id == h.by && tr.mode.is(trackNoLoop) {
				continue
			}
			list = t.notify(list, id, tr, m)
		}
		for _, p := range t.mu.prefixes {
			if strings.HasPrefix(h.key, p.text) {
				p.keys[h.key] = h.by
				p.lsn = max(p.lsn, lsn)
				t.mu.pending = true
			}
		}
	}
	return list
}

// Broadcast informs the clients with BCAST about the keys that have changed since the last call, if
// their users may read them. The loop calls it in each pass, and before the user of a client, or
// its rights, change.
func (t *Tracking) Broadcast() {
	if t.active.Load() {
		t.broadcast().push()
	}
}

// broadcast returns the messages to clients with BCAST.
func (t *Tracking) broadcast() (list notices) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.mu.pending {
		return nil
	}
	t.mu.pending = false
	for _, p := range t.mu.prefixes {
		if len(p.keys) == 0 {
			continue
		}
		common := &invalidation{lsn: p.lsn, keys: slices.Sorted(maps.Keys(p.keys))}
		for id := range p.clients {
			tr, m := t.mu.trackers[id], common
			user := t.permissionsOf(id)
			if tr.mode.is(trackNoLoop) || !user.free {
				seen := slices.DeleteFunc(slices.Clone(m.keys), func(key string) bool {
					return tr.mode.is(trackNoLoop) && p.keys[key] == id || !user.reads([]byte(key))
				})
				m = &invalidation{lsn: p.lsn, keys: seen}
			}
			if len(m.keys) > 0 {
				list = t.notify(list, id, tr, m)
			}
		}
		p.keys, p.lsn = map[string]uint64{}, 0
	}
	return list
}

// permissionsOf returns the permissions of a client's user, or none if the client is gone.
func (t *Tracking) permissionsOf(id uint64) *permissions {
	if c := t.env.Clients[id]; c != nil {
		return c.user.permissions()
	}
	return &permissions{}
}

// notify adds a message to a tracking client, or to the client to which it redirects messages. mu
// is locked.
func (t *Tracking) notify(list notices, id uint64, tr *tracker, m *invalidation) notices {
	to := t.env.Clients[id]
	if to == nil || to.Conn == nil {
		return list
	}
	if tr.redirect != 0 {
		other := t.env.Clients[tr.redirect]
		if other == nil || other.Conn == nil {
			tr.mode |= trackBroken
			if to.Proto >= 3 {
				list = append(list, notice{to, m.lsn, redirectBroken(tr.redirect)})
			}
			return list
		}
		to = other
	}
	switch {
	case to.Proto >= 3:
		list = append(list, notice{to, m.lsn, m.push()})
	case tr.redirect != 0 && to.Subscribed():
		list = append(list, notice{to, m.lsn, m.message()})
	}
	return list
}

// invalidation is a message that these keys have changed. Without keys, any key may have.
type invalidation struct {
	lsn                      uint64
	keys                     []string
	encodedPush, encodedText []byte
}

// push returns the message in RESP3.
func (m *invalidation) push() []byte {
	if m.encodedPush == nil {
		w := resp.Writer{Proto: 3}
		w.Push(2)
		w.BulkString("invalidate")
		m.encodedPush = m.appendKeys(&w)
	}
	return m.encodedPush
}

// message returns the message in RESP2, which is a message of a channel.
func (m *invalidation) message() []byte {
	if m.encodedText == nil {
		w := resp.Writer{Proto: 2}
		w.Array(3)
		w.BulkString("message")
		w.BulkString("__redis__:invalidate")
		m.encodedText = m.appendKeys(&w)
	}
	return m.encodedText
}

func (m *invalidation) appendKeys(w *resp.Writer) []byte {
	if len(m.keys) == 0 {
		w.Null()
		return w.Buf
	}
	w.Array(len(m.keys))
	for _, key := range m.keys {
		w.BulkString(key)
	}
	return w.Buf
}

// redirectBroken returns the message that the client to which messages were redirected is gone.
func redirectBroken(id uint64) []byte {
	w := resp.Writer{Proto: 3}
	w.Push(2)
	w.BulkString("tracking-redir-broken")
	w.Int(int64(id))
	return w.Buf
}

// readers are ids of clients. Most keys have few.
type readers struct {
	few  []uint64
	many map[uint64]struct{} // instead, from fewReaders on
}

const fewReaders = 16

// entryBytes estimates how much memory a key takes in the table, without its name and its readers.
const entryBytes = 100

// bytes estimates how much memory the readers take.
func (r readers) bytes() int {
	const one, oneOfMany = 8, 20
	return cap(r.few)*one + len(r.many)*oneOfMany
}

func (r readers) len() int { return len(r.few) + len(r.many) }

func (r readers) has(id uint64) bool {
	_, ok := r.many[id]
	return ok || slices.Contains(r.few, id)
}

// add adds an id and reports whether it is new.
func (r *readers) add(id uint64) bool {
	if r.has(id) {
		return false
	}
	switch {
	case r.many != nil:
		r.many[id] = struct{}{}
	case len(r.few) < fewReaders:
		r.few = append(r.few, id)
	default:
		r.many = make(map[uint64]struct{}, 2*fewReaders)
		for _, other := range r.few {
			r.many[other] = struct{}{}
		}
		r.many[id], r.few = struct{}{}, nil
	}
	return true
}

// all calls yield for each id until yield returns false.
func (r readers) all(yield func(uint64) bool) {
	for _, id := range r.few {
		if !yield(id) {
			return
		}
	}
	for id := range r.many {
		if !yield(id) {
			return
		}
	}
}
