package commands

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"keyp/internal/config"
	"keyp/storage"
)

// Events passes keyspace events on from the store, where any goroutine may raise them (a command
// on the loop, a script, the reaper), to subscribers. The store raises only those that
// notify-keyspace-events asks for, and none while nobody is subscribed to anything.
//
//	__keyspace@<db>__:<key>     the event's name      with K
//	__keyevent@<db>__:<event>   the key               with E
//
// An event is sent when the change that it reports is durable. Those of one key come in the
// order of its changes.
type Events struct {
	env *Env

	mu struct {
		sync.Mutex
		classes storage.EventClass // of notify-keyspace-events; K and E say where events go
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

// maxSpareEvents bounds what room for events is kept between uses.
const maxSpareEvents = 1024

// ExpiredEventsDelay is how long the store keeps expired keys after it was opened, so that
// clients have connected again when their events are published; 0 if there are no events.
func ExpiredEventsDelay(cfg *config.Config) time.Duration {
	if eventClasses(cfg) == 0 {
		return 0
	}
	return time.Duration(cfg.Int("expired-events-delay")) * time.Millisecond
}

// eventClasses are the classes to be raised; without K and E there is nowhere to publish.
func eventClasses(cfg *config.Config) storage.EventClass {
	classes := storage.EventClass(cfg.Int("notify-keyspace-events"))
	if classes&(storage.EventKeyspace|storage.EventKeyevent) == 0 {
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

// hear records what happened to a key; its shard is still locked.
func (e *Events) hear(happened storage.Happened) {
	e.mu.Lock()
	e.mu.queue = append(e.mu.queue, happened)
	first := !e.waiting.Swap(true)
	e.mu.Unlock()
	if first {
		e.env.wake()
	}
}

// Deliver publishes what came in, at most so many events. The loop calls it after each command,
// so that the command's come before those of the next one, and in each pass, for those that
// others raised. What is left it publishes in the passes to come, between which clients are
// served: a million keys may expire at once.
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

// nextBatch makes what was queued since the last time the batch; false: nothing was.
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
	if e.loop.publishing&storage.EventKeyspace != 0 {
		e.send("__keyspace@", h.DB, h.Key, []byte(h.Name), h.LSN)
	}
	if e.loop.publishing&storage.EventKeyevent != 0 {
		e.send("__keyevent@", h.DB, []byte(h.Name), h.Key, h.LSN)
	}
}

func (e *Events) send(prefix string, db int, name, message []byte, lsn uint64) {
	b := append(e.loop.channel[:0], prefix...)
	b = strconv.AppendInt(b, int64(db), 10)
	b = append(append(b, "__:"...), name...)
	e.loop.channel = b
	if list, n := e.env.PubSub.receivers(Channel, b); n > 0 {
		e.env.publish(list, Channel, b, message, lsn)
	}
}
