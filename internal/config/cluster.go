package config

import (
	"errors"
	"net/netip"
	"strings"
)

// validHostname returns an error for a host name that Redis refuses. It accepts an empty text.
func validHostname(text string) error {
	if len(text) >= 256 {
		//lint:ignore ST1005 Redis's text
		return errors.New("Hostnames must be less than 256 characters")
	}
	if strings.Trim(text,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") != "" {
		//lint:ignore ST1005 Redis's text
		return errors.New("Hostnames may only contain alphanumeric characters, hyphens or dots")
	}
	return nil
}

// validAddress accepts IP addresses, host names and the empty text.
func validAddress(text string) error {
	if _, err := netip.ParseAddr(text); err != nil && validHostname(text) != nil {
		return errors.New("argument must be an IP address")
	}
	return nil
}
