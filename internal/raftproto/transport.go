package raftproto

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	pb "go.etcd.io/raft/v3/raftpb"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// peer is another member, as messages are sent to it.
type peer struct {
	addr   string
	out    []byte // encoded; g.mu guards it
	n      int64
	commit uint64 // the newest that was sent; g.mu guards it

	mu    sync.Mutex // one sends
	conn  net.Conn
	spare []byte
	retry time.Time
}

func (g *Group) connect(base int) error {
	ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", base+int(g.id)))
	if err != nil {
		return err
	}
	for id := uint64(1); id <= 3; id++ {
		if id != g.id {
			g.peers[id] = &peer{addr: fmt.Sprintf("127.0.0.1:%d", base+int(id))}
		}
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				if err := g.receive(c); err != nil && !errors.Is(err, io.EOF) {
					fmt.Fprintln(os.Stderr, "raft: receive:", err)
				}
				c.Close()
			}()
		}
	}()
	return nil
}

// send encodes a message. g.mu is locked.
func (g *Group) send(m *pb.Message) {
	p := g.peers[m.GetTo()]
	if p == nil {
		return
	}
	if m.GetType() == pb.MsgApp {
		more := m.GetCommit() > p.commit
		if len(m.Entries) == 0 && more && !g.commits {
			g.Stats.Dropped.Add(1)
			return // the next entry or heartbeat says it
		}
		p.commit = max(p.commit, m.GetCommit())
	}
	p.out = appendMessage(p.out, m, &g.Stats)
	p.n++
}

// flush writes what was encoded, in order.
func (p *peer) flush(g *Group) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g.mu.Lock()
	b, n := p.out, p.n
	p.out, p.n = p.spare[:0], 0
	g.mu.Unlock()
	p.spare = b[:0]
	if len(b) == 0 {
		return
	}
	if p.conn == nil {
		if time.Now().Before(p.retry) {
			return
		}
		c, err := net.DialTimeout("tcp", p.addr, 100*time.Millisecond)
		if err != nil {
			p.retry = time.Now().Add(100 * time.Millisecond)
			return
		}
		p.conn = c
	}
	if _, err := p.conn.Write(b); err != nil {
		p.conn.Close()
		p.conn = nil
		return
	}
	g.Stats.MessagesOut.Add(n)
	g.Stats.BytesOut.Add(int64(len(b)))
	g.Stats.WritesOut.Add(1)
}

const headSize = 8

// appendMessage: length 4 | crc 4 | time 8 | fields | entries.
func appendMessage(b []byte, m *pb.Message, st *Stats) []byte {
	at := len(b)
	b = append(b, make([]byte, headSize)...)
	b = binary.LittleEndian.AppendUint64(b, uint64(time.Now().UnixMilli()))
	b = append(b, byte(m.GetType()))
	reject := uint64(0)
	if m.GetReject() {
		reject = 1
	}
	for _, v := range [...]uint64{m.GetFrom(), m.GetTo(), m.GetTerm(), m.GetLogTerm(), m.GetIndex(), m.GetCommit(), m.GetVote(), reject, m.GetRejectHint(), uint64(len(m.Context))} {
		b = binary.AppendUvarint(b, v)
	}
	b = append(b, m.Context...)
	b = binary.AppendUvarint(b, uint64(len(m.Entries)))
	for _, e := range m.Entries {
		b = append(b, byte(e.GetType()))
		b = binary.AppendUvarint(b, e.GetTerm())
		b = binary.AppendUvarint(b, e.GetIndex())
		b = binary.AppendUvarint(b, uint64(len(e.Data)))
		b = append(b, e.Data...)
		st.Copied.Add(int64(len(e.Data)))
	}
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at))
	binary.LittleEndian.PutUint32(b[at+4:], crc32.Checksum(b[at+headSize:], castagnoli))
	return b
}

// message keeps what a received message points to.
type message struct {
	m                                                               pb.Message
	typ                                                             pb.MessageType
	from, to, term, logTerm, index, commit, vote, reject, hint, ctx uint64
	rejected                                                        bool
}

type entry struct {
	e           pb.Entry
	term, index uint64
}

func parseMessage(b []byte) *pb.Message {
	b = b[8:] // time
	r := &message{typ: pb.MessageType(b[0])}
	b = b[1:]
	u := func() uint64 {
		v, n := binary.Uvarint(b)
		b = b[n:]
		return v
	}
	for _, f := range [...]*uint64{&r.from, &r.to, &r.term, &r.logTerm, &r.index, &r.commit, &r.vote, &r.reject, &r.hint, &r.ctx} {
		*f = u()
	}
	m := &r.m
	m.Type, m.From, m.To, m.Term, m.LogTerm, m.Index, m.Commit, m.Vote, m.RejectHint = &r.typ, &r.from, &r.to, &r.term, &r.logTerm, &r.index, &r.commit, &r.vote, &r.hint
	if r.reject != 0 {
		r.rejected = true
		m.Reject = &r.rejected
	}
	if r.ctx > 0 {
		m.Context, b = b[:r.ctx], b[r.ctx:]
	}
	if n := u(); n > 0 {
		all := make([]entry, n)
		m.Entries = make([]*pb.Entry, n)
		for i := range all {
			e := &all[i]
			if b[0] != 0 {
				e.e.Type = pb.EntryType(b[0]).Enum()
			}
			b = b[1:]
			e.term, e.index = u(), u()
			e.e.Term, e.e.Index = &e.term, &e.index
			size := u()
			if size > 0 {
				e.e.Data, b = b[:size:size], b[size:]
			}
			m.Entries[i] = &e.e
		}
	}
	return m
}

// receive reads messages and has them handled, all that have arrived together.
func (g *Group) receive(c net.Conn) error {
	r := bufio.NewReaderSize(c, 256<<10)
	var messages []*pb.Message
	for {
		head, err := r.Peek(headSize)
		if err != nil {
			return err
		}
		b := make([]byte, binary.LittleEndian.Uint32(head))
		if _, err := io.ReadFull(r, b); err != nil {
			return err
		}
		if crc32.Checksum(b[headSize:], castagnoli) != binary.LittleEndian.Uint32(b[4:]) {
			return errors.New("a message is damaged")
		}
		g.Stats.MessagesIn.Add(1)
		g.Stats.BytesIn.Add(int64(len(b)))
		messages = append(messages, parseMessage(b[headSize:]))
		if r.Buffered() > headSize {
			head, _ := r.Peek(headSize)
			if r.Buffered() >= int(binary.LittleEndian.Uint32(head)) {
				continue
			}
		}
		g.take(messages)
		if g.late {
			g.applyAll()
		}
		clear(messages)
		messages = messages[:0]
	}
}

func (g *Group) serveStats(port int) {
	http.HandleFunc("/stats", func(w http.ResponseWriter, _ *http.Request) {
		var use unix.Rusage
		unix.Getrusage(unix.RUSAGE_SELF, &use)
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		s := &g.Stats
		json.NewEncoder(w).Encode(map[string]any{
			"user_us": use.Utime.Nano() / 1000, "sys_us": use.Stime.Nano() / 1000, "allocated": mem.TotalAlloc, "gcs": mem.NumGC, "switches": use.Nvcsw,
			"proposals": s.Proposals.Load(), "entries": s.Entries.Load(), "entry_bytes": s.EntryBytes.Load(),
			"syncs": s.Syncs.Load(), "written": s.Written.Load(), "written_bytes": s.WrittenBytes.Load(),
			"messages_out": s.MessagesOut.Load(), "bytes_out": s.BytesOut.Load(), "writes_out": s.WritesOut.Load(),
			"messages_in": s.MessagesIn.Load(), "bytes_in": s.BytesIn.Load(), "copied": s.Copied.Load(), "applied": s.Applied.Load(),
			"readies": s.Readies.Load(), "steps": s.Steps.Load(), "deferred": s.Deferred.Load(), "dropped": s.Dropped.Load(), "sent_us": s.Sent.Load() / 1000, "synced_us": s.Synced.Load() / 1000, "committed_us": s.Committed.Load() / 1000, "answered_us": s.Answered.Load() / 1000, "writing_us": s.Writing.Load() / 1000, "mutexed_us": s.Mutexed.Load() / 1000,
			"lease_checks": s.LeaseChecks.Load(), "lease_missing": s.LeaseMissing.Load(), "lease_taken": s.LeaseTaken.Load(),
		})
	})
	go http.ListenAndServe(fmt.Sprintf("127.0.0.1:%d", port), nil)
}
