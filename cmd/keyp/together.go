package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"keyp/internal/config"
	"keyp/server"
	"keyp/storage"
	"keyp/web"
)

// checkTogether returns what is wrong with options whose values are each valid: they may exclude
// each other, or name files that cannot be read. It opens no port, and not the data.
func checkTogether(cfg *config.Config) error {
	all := config.Mistakes(server.Check(cfg))
	at, err := web.Address(cfg)
	if err == nil {
		err = checkHTTP(cfg, at)
	}
	all = append(all, err)
	dir, archive := cfg.PathOf("dir"), cfg.PathOf("archive-dir")
	if archive != "" && cfg.String("archive-command") != "" {
		all = append(all, errors.New("archive-dir and archive-command exclude each other"))
	}
	switch {
	case dir == "":
		all = append(all, errors.New("dir is empty: it names the directory of the data, such as ./keyp-data"))
	case archive != "":
		all = append(all, storage.CheckArchive(archive, dir))
	}
	if cfg.Bool("cluster-enabled") {
		_, _, err := memberSecrets(cfg)
		all = append(all, err)
	}
	if all = slices.DeleteFunc(all, func(err error) bool { return err == nil }); len(all) == 0 {
		return nil
	}
	return all
}

// checkHTTP returns the error for an http-addr that has a port of clients, or has TLS without a
// certificate. An address that nobody gave leaves the ports of clients alone.
func checkHTTP(cfg *config.Config, at netip.AddrPort) error {
	if !at.IsValid() {
		return nil
	}
	for _, option := range []string{"port", "tls-port"} {
		same := cfg.Given("http-addr") && at.Port() != 0 && cfg.Int(option) == int64(at.Port())
		if same && slices.ContainsFunc(cfg.Words("bind"), func(word string) bool { return takes(word, at.Addr()) }) {
			return fmt.Errorf("%s and http-addr are both %d", option, at.Port())
		}
	}
	if cfg.Bool("http-tls") && cfg.Int("tls-port") == 0 { // otherwise the server has looked at it
		return server.CheckTLS(cfg)
	}
	return nil
}

// takes reports whether a word of bind takes an address: nothing else can have a port of it.
func takes(word string, addr netip.Addr) bool {
	word = strings.TrimPrefix(word, "-")
	own, err := netip.ParseAddr(word)
	switch {
	case word == "*":
		own = netip.IPv4Unspecified()
	case word == "::*":
		own = netip.IPv6Unspecified()
	case err != nil:
		return false // the name of a host
	}
	if addr == netip.IPv6Unspecified() { // IPv4, too
		return true
	}
	return own == addr || own.Is4() == addr.Is4() && (own.IsUnspecified() || addr.IsUnspecified())
}
