package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"keyp/commands"
	"keyp/internal/clock"
	"keyp/internal/config"
	"keyp/member"
	"keyp/server"
)

// errAgain is returned by serve if this process must execute the program again. A member of a group
// does so to replace the data of its open store.
var errAgain = errors.New("the server starts again")

// newMember returns the Member that represents this server in a group. serve calls it if
// cluster-enabled is yes. again stops the server cleanly, so that the process can execute itself
// again.
func newMember(cfg *config.Config, machine *clock.Machine, logger *slog.Logger,
	env func() *commands.Env, again func()) (*member.Member, error) {
	o := member.Options{
		Clock: machine, Logger: logger, Again: again,
		Announced: func() commands.Member { return env().Announced() },
		Listen:    func() (net.Listener, error) { return listenForMembers(cfg) },
		KeptLog:   func() int64 { return cfg.Int("cluster-log-size") },
		Exec: func() {
			if err := executeAgain(cfg, machine); err != nil {
				logger.Error("the server cannot start again by itself", "error", err)
				os.Exit(1)
			}
		},
	}
	var err error
	if o.Secret, o.TLS, err = memberSecrets(cfg); err != nil {
		return nil, err
	}
	return member.New(o), nil
}

// memberSecrets reads the secret and the TLS settings by which members authenticate each other.
func memberSecrets(cfg *config.Config) (secret []byte, made *tls.Config, err error) {
	if path := cfg.PathOf("cluster-secret-file"); path != "" {
		if secret, err = os.ReadFile(path); err != nil {
			return nil, nil, fmt.Errorf("cluster-secret-file: %w", err)
		}
		if secret = bytes.TrimSpace(secret); len(secret) < leastSecret {
			return nil, nil, fmt.Errorf("cluster-secret-file: %s has fewer than %d bytes",
				path, leastSecret)
		}
	}
	if cfg.Bool("tls-cluster") {
		if made, err = server.MemberTLS(cfg); err != nil {
			return nil, nil, config.Each("tls-cluster", err)
		}
	}
	return secret, made, nil
}

// leastSecret is the minimum length of a secret, in bytes.
const leastSecret = 16

// listenForMembers opens the port for other members, on the first address of bind.
func listenForMembers(cfg *config.Config) (net.Listener, error) {
	port, err := memberPort(cfg)
	if err != nil {
		return nil, err
	}
	host := ""
	if words := strings.Fields(cfg.String("bind")); len(words) > 0 {
		host = strings.TrimPrefix(words[0], "-")
	}
	if host == "*" || host == "::*" {
		host = ""
	}
	return net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
}

// memberPort returns the port for other members.
func memberPort(cfg *config.Config) (int, error) {
	port := commands.BusPort(cfg, int(cfg.Int("port")), int(cfg.Int("tls-port")))
	if port > 65535 {
		return 0, fmt.Errorf("port %d is too high for one that is 10000 more: set cluster-port",
			port-10000)
	}
	return port, nil
}

// executeAgain replaces this process by a new run of this program with the same arguments. If DEBUG
// has shifted the clock, the new run keeps the shift.
func executeAgain(cfg *config.Config, machine *clock.Machine) error {
	args := slices.Clone(os.Args)
	if offset := machine.Offset(); offset != cfg.Int("debug-clock-offset") {
		args = append(args, "--debug-clock-offset", strconv.FormatInt(offset, 10))
	}
	path, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Chdir(cfg.Start()); err != nil {
		// The start directory no longer exists, so relative paths in it do not exist either. But
		// the data is in the current directory.
		args = append(args, "--dir", ".")
	}
	return syscall.Exec(strings.TrimSuffix(path, " (deleted)"), args, os.Environ())
}
