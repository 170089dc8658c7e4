package commands

import (
	"bytes"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"keyp/internal/config"
	"keyp/internal/histogram"
	"keyp/storage"
)

// Events passes keyspace events on from the store to subscribers. Any goroutine may raise events in
// the store: a command on the loop, a script, the reaper. The store raises only the events that
// notify-keyspace-events asks for. While nobody is subscribed to anything, it raises none.
//
//	__keyspace@<db>__:<key>     the event's name      with K
//	__keyevent@<db>__:<event>   the key               with E
//
// An event about fields of a hash is also published to the channels below. <fields> are the fields,
// separated by commas. Each field is written as its length, a colon and the field itself.
//
//	__subkeyspace@<db>__:<key>               <event>|<fields>                   with S
//	__subkeyevent@<db>__:<event>             <length of the key>:<key>|<fields> with T
//	__subkeyspaceitem@<db>__:<key>\n<field>  the event's name, for each field   with I; not if the key has a line end
//	__subkeyspaceevent@<db>__:<event>|<key>  <fields>                           with V
//
// An event is sent when the change that it reports is durable. Those of one key come in the order
// of its changes.
type Events struct {
	env  *Env
	late *histogram.Histogram // microseconds from a key's deadline until its event is published

	mu struct {
		sync.Mutex
		// The classes of notify-keyspace-events. K, E, S, T, I and V say to which channels events
		// go.
		classes storage.EventClass
		queue   []storage.Happened // not delivered yet
	}
	waiting atomic.Bool // there is something to deliver

	// loop belongs to the event loop.
	loop struct {
		batch      []storage.Happened // being delivered
		next       int                // in batch
		publishing storage.EventClass // mu.classes when batch was the queue
		channel    []byte             // for reuse
	}
}

// maxSpareEvents bounds the room for events that is kept between uses.
const maxSpareEvents = 1024

// ExpiredEventsDelay returns how long the store keeps expired keys after it was opened. The delay
// lets clients connect again before events of these keys are published. It is 0 if no events are
// configured.
func ExpiredEventsDelay(cfg *config.Config) time.Duration {
	if eventClasses(cfg) == 0 {
		return 0
	}
	return time.Duration(cfg.Int("expired-events-delay")) * time.Millisecond
}

// eventClasses returns the classes of events that the store should raise. Without K, E, S, T, I and
// V there are none, because no channel would get the events.
func eventClasses(cfg *config.Config) storage.EventClass {
	classes := storage.EventClass(cfg.Int("notify-keyspace-events"))
	if classes&(storage.EventKeyspace|storage.EventKeyevent|storage.EventFields) == 0 {
		return 0
	}
	return classes
}

// enable sets which events the store raises, after the option or the subscriptions have
// changed. Any goroutine may call it.
func (e *Events) enable() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.classes = eventClasses(e.env.Config)
	if e.env.PubSub.listened.Load() {
		e.env.Store.SetEvents(e.mu.classes)
	} else {
		e.env.Store.SetEvents(0)
	}
}

// hear records an event of a key, whose shard is still locked.
func (e *Events) hear(happened storage.Happened) {
	e.mu.Lock()
	e.mu.queue = append(e.mu.queue, happened)
	first := !e.waiting.Swap(true)
	e.mu.Unlock()
	if first {
		e.env.wake()
	}
}

// Deliver publishes at most most of the queued events. The loop calls it after each command, so
// that the command's events come before those of the next one. The loop also calls it in each pass,
// for events that other goroutines raised. The rest is published in later passes, and clients are
// served in between: a million keys may expire at once.
func (e *Events) Deliver(most int) {
	if !e.waiting.Load() {
		return
	}
	for range most {
		if e.loop.next == len(e.loop.batch) && !e.nextBatch() {
			return
		}
		e.publish(&e.loop.batch[e.loop.next])
		e.loop.batch[e.loop.next] = storage.Happened{}
		e.loop.next++
	}
}

// nextBatch moves the events that were queued since its last call to the batch. It returns false if
// there are none.
func (e *Events) nextBatch() bool {
	spare := e.loop.batch[:0]
	if cap(spare) > maxSpareEvents {
		spare = nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.loop.batch, e.mu.queue, e.loop.next = e.mu.queue, spare, 0
	e.loop.publishing = e.mu.classes
	e.waiting.Store(len(e.loop.batch) > 0)
	return len(e.loop.batch) > 0
}

func (e *Events) publish(h *storage.Happened) {
	if h.Call != nil {
		h.Call(h.LSN)
		return
	}
	if h.Due != 0 {
		e.late.Observe(e.env.Store.Micros() - h.Due*1000)
	}
	if e.loop.publishing&storage.EventKeyspace != 0 {
		e.send(h, "__keyspace@", []byte(h.Name), h.Key)
	}
	if e.loop.publishing&storage.EventKeyevent != 0 {
		e.send(h, "__keyevent@", h.Key, []byte(h.Name))
	}
	if len(h.Fields) > 0 {
		e.publishFields(h)
	}
}

// publishFields publishes an event with the fields that it is about.
func (e *Events) publishFields(h *storage.Happened) {
	name, fields := []byte(h.Name), []byte(nil)
	for i, f := range h.Fields {
		if i > 0 {
			fields = append(fields, ',')
		}
		fields = appendCounted(fields, f)
	}
	publishing := e.loop.publishing
	if publishing&storage.EventFieldSpace != 0 {
		e.send(h, "__subkeyspace@", slices.Concat(name, []byte("|"), fields), h.Key)
	}
	if publishing&storage.EventFieldEvent != 0 {
		e.send(h, "__subkeyevent@", slices.Concat(appendCounted(nil, h.Key), []byte("|"), fields),
			name)
	}
	if publishing&storage.EventFieldItem != 0 && bytes.IndexByte(h.Key, '\n') < 0 {
		for _, f := range h.Fields {
			e.send(h, "__subkeyspaceitem@", name, h.Key, []byte("\n"), f)
		}
	}
	if publishing&storage.EventFieldSpaceEvent != 0 {
		e.send(h, "__subkeyspaceevent@", fields, name, []byte("|"), h.Key)
	}
}

// appendCounted appends the length of a text, a colon and the text.
func appendCounted(b, text []byte) []byte {
	return append(append(strconv.AppendInt(b, int64(len(text)), 10), ':'), text...)
}

// send publishes a message about an event. The name of the channel consists of prefix, the database
// and the parts in name.
func (e *Events) send(h *storage.Happened, prefix string, message []byte, name ...[]byte) {
	b := append(e.loop.channel[:0], prefix...)
	b = strconv.AppendInt(b, int64(h.DB), 10)
	b = append(b, "__:"...)
	for _, part := range name {
		b = append(b, part...)
	}
	e.loop.channel = b
	if list, n := e.env.PubSub.receivers(Channel, b); n > 0 {
		e.env.publish(list, Channel, b, message, h.LSN)
	}
}
