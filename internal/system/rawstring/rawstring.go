// Package rawstring carries strings of the operating system through JSON and TOML.
//
// Names of files, arguments and environments are bytes. Both formats hold UTF-8 text, and silently change other
// bytes. Here a byte that is part of no UTF-8 sequence becomes a NUL and its two hexadecimal digits, "\u0000e9"
// in a file. No such string holds a NUL of its own, so strings that are UTF-8 stay as they are. A NUL would
// become "\u000000".
package rawstring

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Escape returns s as UTF-8 text. Different strings give different texts.
func Escape(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	const digits = "0123456789abcdef"
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == 0 || r == utf8.RuneError && n == 1 {
			b.Write([]byte{0, digits[s[0]>>4], digits[s[0]&15]})
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// Unescape undoes Escape. A NUL without its digits stays.
func Unescape(s string) string {
	before, rest, found := strings.Cut(s, "\x00")
	if !found {
		return s
	}
	var b strings.Builder
	for found {
		b.WriteString(before)
		if c, err := hex.DecodeString(rest[:min(2, len(rest))]); err == nil && len(c) == 1 {
			b.WriteByte(c[0])
			rest = rest[2:]
		} else {
			b.WriteByte(0)
		}
		before, rest, found = strings.Cut(rest, "\x00")
	}
	b.WriteString(before)
	return b.String()
}

// String is a string that keeps its bytes in JSON, except as the key of a map.
type String string

// MarshalText returns the escaped string.
func (s String) MarshalText() ([]byte, error) { return []byte(Escape(string(s))), nil }

// UnmarshalText takes an escaped string.
func (s *String) UnmarshalText(text []byte) error {
	*s = String(Unescape(string(text)))
	return nil
}

// Strings are strings that keep their bytes in JSON.
type Strings []string

// MarshalJSON returns an array of the escaped strings.
func (s Strings) MarshalJSON() ([]byte, error) { return json.Marshal(Each(s, Escape)) }

// UnmarshalJSON takes an array of escaped strings.
func (s *Strings) UnmarshalJSON(text []byte) error {
	var escaped []string
	if err := json.Unmarshal(text, &escaped); err != nil {
		return err
	}
	*s = Each(escaped, Unescape)
	return nil
}

// Each returns the results of f for all strings; nil if there are none.
func Each(s []string, f func(string) string) []string {
	if s == nil {
		return nil
	}
	all := make([]string, len(s))
	for i := range s {
		all[i] = f(s[i])
	}
	return all
}
