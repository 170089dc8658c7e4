package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"keyp/commands"
	"keyp/internal/config"
	"keyp/server"
	"keyp/storage"
	"keyp/web"
)

// checkConfig returns all errors of a configuration, including loaded, the errors of loading it.
// cfg is nil if it could not be parsed at all. checkConfig opens neither ports nor the data.
func checkConfig(cfg *config.Config, loaded error) error {
	var all config.Mistakes
	all.Add(loaded)
	if cfg != nil {
		all.Add(commands.NewTable().Rename(cfg.Renames()))
		all.Add(commands.CheckUsers(cfg))
	}
	if loaded == nil { // otherwise what was not understood has its default
		all.Add(checkTogether(cfg))
	}
	return all.OrNil()
}

// checkTogether returns the errors in combinations of valid options. An error is a pair of options
// that exclude each other, a file that cannot be read, or a file that the server would damage.
func checkTogether(cfg *config.Config) error {
	var all config.Mistakes
	add := func(several ...error) {
		for _, err := range several {
			all.Add(err)
		}
	}
	add(server.Check(cfg)...)
	at, err := web.Address(cfg)
	if err == nil {
		err = checkHTTP(cfg, at)
	}
	add(err)
	dir, archive := cfg.PathOf("dir"), cfg.PathOf("archive-dir")
	if archive != "" && cfg.String("archive-command") != "" {
		add(errors.New("archive-dir and archive-command exclude each other"))
	}
	if command := cfg.String("archive-command"); command != "" && !strings.Contains(command, "%p") {
		cfg.Warn("archive-command has no %p, so it does not get the file that it is to keep")
	}
	switch age := cfg.Int("ready-archive-age"); {
	case age == 0:
	case archive == "" && cfg.String("archive-command") == "":
		cfg.Warn("ready-archive-age has no effect without archive-dir or archive-command")
	case age <= cfg.Int("archive-timeout"):
		cfg.Warn("ready-archive-age is not longer than archive-timeout, so the server is not ready again and again")
	}
	if dir == "" {
		add(errors.New("dir is empty: it names the directory of the data, such as ./keyp-data"))
	} else {
		add(checkFiles(cfg)...)
		if archive != "" {
			add(storage.CheckArchive(archive, dir))
		}
	}
	if cfg.Bool("cluster-enabled") {
		_, _, err := memberSecrets(cfg)
		add(err, checkMemberPort(cfg, at))
	}
	for i, err := range all {
		all[i] = cfg.Locate(err)
	}
	return all.OrNil()
}

// checkMemberPort returns an error if the port for members is invalid or used by something else.
func checkMemberPort(cfg *config.Config, http netip.AddrPort) error {
	port, err := memberPort(cfg)
	if err != nil {
		return err
	}
	if cfg.Given("http-addr") && int(http.Port()) == port {
		return fmt.Errorf("http-addr and cluster-port are both %d", port)
	}
	for _, option := range []string{"port", "tls-port"} {
		if cfg.Int(option) == int64(port) {
			return fmt.Errorf("%s and cluster-port are both %d", option, port)
		}
	}
	return nil
}

// checkHTTP returns an error if http-addr uses a port of clients, or has TLS without a certificate.
// The default http-addr is not checked for such a port, because it avoids these ports.
func checkHTTP(cfg *config.Config, at netip.AddrPort) error {
	if !at.IsValid() {
		return nil
	}
	for _, option := range []string{"port", "tls-port"} {
		same := cfg.Given("http-addr") && at.Port() != 0 && cfg.Int(option) == int64(at.Port())
		if same && server.Takes(cfg, at.Addr()) {
			return fmt.Errorf("%s and http-addr are both %d", option, at.Port())
		}
	}
	if cfg.Bool("http-tls") && cfg.Int("tls-port") == 0 { // otherwise the server has looked at it
		return server.CheckTLS(cfg, "http-tls")
	}
	return nil
}
