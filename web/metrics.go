package web

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"keyp/commands"
	"keyp/internal/histogram"
	"keyp/storage"
)

// This file replies to requests for metrics, in the formats of Prometheus and OpenMetrics.

const (
	// loopTime is how long a request waits for the event loop.
	loopTime = 250 * time.Millisecond
	// turnTime is how long an expensive request waits for its turn.
	turnTime = time.Second
	// maxDatabases is how many databases have metrics of their own.
	maxDatabases = 64
)

func (m *metric) describe() *prometheus.Desc {
	return prometheus.NewDesc(m.name, m.help, strings.Fields(m.labels), nil)
}

// collector passes a reading to the library. Each scrape has its own collector.
type collector struct{ r *reading }

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range descriptions {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	for i := range metrics {
		m, desc := &metrics[i], descriptions[i]
		typ := prometheus.GaugeValue
		if m.kind == counter {
			typ = prometheus.CounterValue
		}
		put := func(value float64, labels ...string) {
			made, err := prometheus.NewConstMetric(desc, typ, value, labels...)
			send(to, desc, made, err)
		}
		switch {
		case m.value != nil:
			put(m.value(c.r))
		case m.values != nil:
			m.values(c.r, put)
		default:
			m.spread(c.r, func(r histogram.Reading, unit float64, labels ...string) {
				upto := make(map[float64]uint64, len(r.Bounds))
				for i, bound := range r.Bounds {
					upto[inUnit(bound, unit)] = r.Upto[i]
				}
				made, err := prometheus.NewConstHistogram(desc, r.Count, float64(r.Sum)*unit,
					upto, labels...)
				send(to, desc, made, err)
			})
		}
	}
}

// send passes a metric to the library, or the error why there is none. It must not panic, because a
// panic on the library's goroutines would end the server.
func send(to chan<- prometheus.Metric, desc *prometheus.Desc, m prometheus.Metric, err error) {
	if err != nil {
		m = prometheus.NewInvalidMetric(desc, err)
	}
	to <- m
}

// inUnit converts a bound to the unit of its metric, rounded to a short decimal: 0.0001, not
// 0.00009999999999999999.
func inUnit(bound int64, unit float64) float64 {
	f, err := strconv.ParseFloat(strconv.FormatFloat(float64(bound)*unit, 'g', 12, 64), 64)
	if err != nil {
		return float64(bound) * unit // impossible
	}
	return f
}

// population holds the numbers of keys for one value of the label db.
type population struct {
	db            string
	keys, expires int64
	ttl           float64 // seconds
}

// label returns the label db of the i-th database. Databases beyond the first maxDatabases share
// one.
func label(i int, p storage.Population) string {
	if i >= maxDatabases {
		return "other"
	}
	return strconv.Itoa(p.DB)
}

// populations returns one population for each of the first maxDatabases databases, and one for all
// others together.
func populations(list []storage.Population) (found []population) {
	for i, p := range list {
		if i < maxDatabases {
			found = append(found, population{label(i, p), p.Keys, p.Expires,
				float64(p.AverageTTL) / 1000})
			continue
		}
		if i == maxDatabases {
			found = append(found, population{db: label(i, p)})
		}
		other := &found[maxDatabases]
		other.ttl = (other.ttl*float64(other.expires) + float64(p.AverageTTL)/1000*float64(
			p.Expires)) / max(1, float64(other.expires+p.Expires))
		other.keys, other.expires = other.keys+p.Keys, other.expires+p.Expires
	}
	return found
}

func perDatabase(read func(*population) float64) func(*reading, func(float64, ...string)) {
	return func(r *reading, put func(float64, ...string)) {
		list := populations(r.Populations)
		for i := range list {
			put(read(&list[i]), list[i].db)
		}
	}
}

// read reads all data for metrics and usage; it returns nil if the data cannot be read now.
func (s *Server) read() (r *reading) {
	s.use(func(env *commands.Env) {
		r = &reading{
			at: s.o.Clock.Now(), stats: &env.Stats, config: env.Config, started: env.Started,
			reserve: env.Store.DiskReserve(), failures: env.Store.FailedCheckpoints(),
			cost:     env.Store.Log().SyncCost().Seconds(),
			requests: s.requests.Load(),
		}
		r.loop, r.waited = s.askLoop(env)
		r.Report = env.Report()
		r.due, r.types = s.pulse.dueWithin(), s.pulse.byType.ask(s.o.Clock.Mono())
	})
	return r
}

// askLoop returns the loop's report, and the seconds that it took to answer. If the loop does not
// answer, it returns the last report and loopTime.
func (s *Server) askLoop(env *commands.Env) (commands.LoopReport, float64) {
	began := s.o.Clock.Mono()
	answer := make(chan commands.LoopReport, 1)
	if s.pulse.silent.Load() < 2 { // else no answer is likely
		env.Host.Post(func() { answer <- env.LoopReport() })
		select {
		case r := <-answer:
			return r, (s.o.Clock.Mono() - began).Seconds()
		case <-time.After(loopTime):
		}
	}
	if last := s.pulse.loop.Load(); last != nil {
		return *last, loopTime.Seconds()
	}
	return commands.LoopReport{}, loopTime.Seconds()
}

// inTurn runs an expensive function once fewer than cap(heavy) others run. If there is no turn
// within turnTime, it replies with an error and returns false.
func (s *Server) inTurn(w http.ResponseWriter, r *http.Request, fn func()) bool {
	select {
	case s.heavy <- struct{}{}:
		defer func() { <-s.heavy }()
		fn()
		return true
	case <-time.After(turnTime):
	case <-r.Context().Done():
	}
	w.Header().Set("Retry-After", "1")
	reply(w, http.StatusServiceUnavailable, "too many requests at a time")
	return false
}

// showMetrics replies with all metrics in the form that the client asks for: OpenMetrics, or
// Prometheus's own.
func (s *Server) showMetrics(w http.ResponseWriter, r *http.Request) {
	format := expfmt.NegotiateIncludingOpenMetrics(r.Header)
	var text bytes.Buffer
	var err error
	var from *reading
	zipped := accepts(r, "gzip")
	if !s.inTurn(w, r, func() {
		if from = s.read(); from != nil {
			err = encode(&text, from, format, zipped)
		}
	}) {
		return
	}
	switch {
	case from == nil:
		reply(w, http.StatusServiceUnavailable, s.pulse.says())
		return
	case err != nil:
		s.o.Log.Error("the metrics cannot be shown", "error", err)
		reply(w, http.StatusInternalServerError,
			"the metrics cannot be shown; the server's log says why")
		return
	}
	w.Header().Set("Content-Type", string(format))
	w.Header().Set("Vary", "Accept, Accept-Encoding")
	if zipped {
		w.Header().Set("Content-Encoding", "gzip")
	}
	_, _ = w.Write(text.Bytes()) // the client may be gone
}

// encode writes the metrics of a reading.
func encode(to *bytes.Buffer, r *reading, format expfmt.Format, zipped bool) error {
	registry := prometheus.NewRegistry()
	if err := registry.Register(collector{r}); err != nil {
		return err
	}
	families, err := registry.Gather()
	if err != nil {
		return err
	}
	var out io.Writer = to
	var zip *gzip.Writer
	if zipped {
		zip = gzip.NewWriter(to)
		out = zip
	}
	encoder := expfmt.NewEncoder(out, format)
	for _, family := range families {
		if err := encoder.Encode(family); err != nil {
			return fmt.Errorf("%s: %w", family.GetName(), err)
		}
	}
	if closer, ok := encoder.(expfmt.Closer); ok { // OpenMetrics has an end
		if err := closer.Close(); err != nil {
			return err
		}
	}
	if zip != nil {
		return zip.Close()
	}
	return nil
}
