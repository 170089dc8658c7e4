package web

import (
	"encoding/json"
	"net/http"
	"runtime"

	"keyp/commands"
	"keyp/internal/config"
)

// usage is the content of /usage: the use and the limit of each resource. Sizes are in bytes; a
// limit of 0 means no limit.
type usage struct {
	Memory struct {
		Used     int64            `json:"used"`
		Limit    int64            `json:"limit"`
		Peak     int64            `json:"peak"`
		Resident int64            `json:"resident"`
		ByOwner  map[string]int64 `json:"by_owner"`
	} `json:"memory"`
	Keys struct {
		Total     int64           `json:"total"`
		Expiring  int64           `json:"expiring"`
		InMemory  int64           `json:"in_memory"`
		Databases []databaseUsage `json:"databases"`
	} `json:"keys"`
	Disk struct {
		DataFile     int64  `json:"data_file"`
		DataFileFree int64  `json:"data_file_free"`
		Log          int64  `json:"log"`
		LogLimit     int64  `json:"log_limit"` // a checkpoint starts there
		Free         uint64 `json:"free"`
		Reserve      uint64 `json:"reserve"`
		Full         bool   `json:"full"`
	} `json:"disk"`
	Clients struct {
		Connected int64 `json:"connected"`
		Limit     int64 `json:"limit"`
		Memory    int64 `json:"memory"`
	} `json:"clients"`
}

type databaseUsage struct {
	DB       int   `json:"db"`
	Keys     int64 `json:"keys"`
	Expiring int64 `json:"expiring"`
}

func (r *reading) usage() (u usage) {
	u.Memory.Used, u.Memory.Limit = r.Process.Used, r.config.Int("maxmemory")
	u.Memory.Peak, u.Memory.Resident = r.Peak, r.Resident
	u.Memory.ByOwner = r.owners()
	u.Keys.Databases = []databaseUsage{}
	for _, p := range r.Populations {
		u.Keys.Total, u.Keys.Expiring = u.Keys.Total+p.Keys, u.Keys.Expiring+p.Expires
		u.Keys.Databases = append(u.Keys.Databases, databaseUsage{p.DB, p.Keys, p.Expires})
	}
	u.Keys.InMemory = r.Store.Resident
	u.Disk.DataFile, u.Disk.DataFileFree = r.Store.DataBytes, r.Store.DataFree
	u.Disk.Log, u.Disk.LogLimit = r.Store.LogBytes, r.config.Int("checkpoint-log-size")
	u.Disk.Free, u.Disk.Reserve, u.Disk.Full = r.Store.FreeSpace, r.reserve, r.Full
	u.Clients.Connected, u.Clients.Limit, u.Clients.Memory = r.loop.Clients,
		r.config.Int("maxclients"), r.loop.ClientMemory
	return u
}

func (s *Server) showUsage(w http.ResponseWriter, r *http.Request) {
	var from *reading
	if !s.inTurn(w, r, func() { from = s.read() }) {
		return
	}
	if from == nil {
		reply(w, http.StatusServiceUnavailable, s.pulse.says())
		return
	}
	s.replyJSON(w, from.usage())
}

func (s *Server) showVersion(w http.ResponseWriter, _ *http.Request) {
	commit, date := config.Build()
	s.replyJSON(w, map[string]string{"version": config.Version, "commit": commit, "date": date,
		"redis_version": commands.RedisVersion, "go_version": runtime.Version()})
}

func (s *Server) replyJSON(w http.ResponseWriter, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		s.o.Log.Error("a page cannot be shown", "error", err)
		reply(w, http.StatusInternalServerError,
			"the page cannot be shown; the server's log says why")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // the client may be gone
}
