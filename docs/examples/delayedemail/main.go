// Delayedemail sends e-mails at their time. A reminder can be cancelled until it is sent. If an
// e-mail fails, it is tried again, each time after a longer delay. In the end it goes to the dead
// letters. If a worker dies, another one sends its e-mail: it may be sent twice but is never lost.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

// Mail is an e-mail.
type Mail struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

// Mailer sends e-mails at their time. Its keys have the same hash tag, as a cluster requires for
// the keys of one command.
type Mailer struct {
	Redis       *redis.Client
	Queue, Dead string // keys: of the e-mails that wait, and of those that could not be sent
	// Visibility is the longest time for sending an e-mail. Then another worker sends it.
	Visibility time.Duration
	Tries      int           // how often one is tried
	Backoff    time.Duration // after the first failure; twice as long after each further one
}

// Send schedules an e-mail. If the id waits already, nothing changes, so Send can be called again
// after a lost reply.
func (m *Mailer) Send(ctx context.Context, id string, at time.Time, mail Mail) error {
	text, err := json.Marshal(mail)
	if err != nil {
		return err
	}
	return m.Redis.Do(ctx, "KEYP.DELAY", "ADD", m.Queue, id, at.UnixMilli(), text, "NX").Err()
}

// Cancel cancels an e-mail. It returns false if the e-mail has been sent, or if there was none.
func (m *Mailer) Cancel(ctx context.Context, id string) (bool, error) {
	n, err := m.Redis.Do(ctx, "KEYP.DELAY", "CANCEL", m.Queue, id).Int()
	return n > 0, err
}

// Work waits for an e-mail that is due, and sends it. It returns false if none was due in time.
func (m *Mailer) Work(ctx context.Context, wait time.Duration,
	send func(id string, mail Mail) error) (bool, error) {
	jobs, err := m.Redis.Do(ctx, "KEYP.DELAY", "POP", m.Queue, "BLOCK", max(wait.Milliseconds(), 1),
		"VISIBILITY", m.Visibility.Milliseconds(),
		"MAXDELIVERIES", m.Tries, "DEADLETTER", m.Dead).Slice()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	job := jobs[0].([]any)
	id, text, receipt, deliveries := job[0].(string), job[1].(string),
		job[2].(string), job[3].(int64)
	var mail Mail
	if err = json.Unmarshal([]byte(text), &mail); err == nil {
		err = send(id, mail)
	}
	if err == nil {
		// The reply is 0 if it took longer than Visibility, and another worker has the
		// e-mail by now.
		return true, m.Redis.Do(ctx, "KEYP.DELAY", "ACK", m.Queue, receipt).Err()
	}
	delay := m.Backoff << (deliveries - 1)
	return true, m.Redis.Do(ctx, "KEYP.DELAY", "NACK", m.Queue, receipt, "DELAY",
		delay.Milliseconds(),
		"MAXDELIVERIES", m.Tries, "DEADLETTER", m.Dead).Err()
}

// run works until nothing is left to send.
func run(ctx context.Context, rdb *redis.Client, out io.Writer) error {
	m := Mailer{Redis: rdb, Queue: "{mail}", Dead: "{mail}:dead", Visibility: time.Minute, Tries: 3,
		Backoff: 20 * time.Millisecond}
	now := time.Now()
	err := errors.Join(
		m.Send(ctx, "welcome:ann", now, Mail{"ann@example.com", "Welcome"}),
		m.Send(ctx, "welcome:bob", now, Mail{"bob@nowhere", "Welcome"}),
		m.Send(ctx, "reminder:ann", now.Add(300*time.Millisecond),
			Mail{"ann@example.com", "Your order is not paid yet"}),
		m.Send(ctx, "reminder:cid", now.Add(time.Hour),
			Mail{"cid@example.com", "Your order is not paid yet"}),
	)
	if err != nil {
		return err
	}
	tries := map[string]int{}
	send := func(id string, mail Mail) error {
		tries[id]++
		if mail.To == "bob@nowhere" || id == "welcome:ann" && tries[id] == 1 {
			fmt.Fprintf(out, "%s: try %d fails\n", id, tries[id])
			return errors.New("the mail server does not answer")
		}
		fmt.Fprintf(out, "%s: sent to %s\n", id, mail.To)
		return nil
	}
	// Cid pays, so he needs no reminder.
	taken, err := m.Cancel(ctx, "reminder:cid")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "reminder:cid is taken back:", taken)
	for {
		left, err := rdb.Do(ctx, "KEYP.DELAY", "LEN", m.Queue).Int()
		if err != nil {
			return err
		}
		if left == 0 {
			break
		}
		if _, err := m.Work(ctx, time.Second, send); err != nil {
			return err
		}
	}
	dead, err := rdb.XRange(ctx, m.Dead, "-", "+").Result()
	if err != nil {
		return err
	}
	for _, d := range dead {
		fmt.Fprintf(out, "put aside: %v after %v tries\n", d.Values["id"], d.Values["deliveries"])
	}
	return rdb.Del(ctx, m.Dead).Err()
}

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "the server's address")
	flag.Parse()
	if err := run(context.Background(), redis.NewClient(&redis.Options{Addr: *addr}),
		os.Stdout); err != nil {
		log.Fatal(err)
	}
}
