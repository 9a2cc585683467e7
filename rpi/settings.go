package rpi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Settings are the values of a module's parameters. Env.Params overrides the defaults.
type Settings struct {
	module string
	values map[string]string
	err    error
}

// NewSettings reads the entries of given whose names begin with the module's name and a dot. A
// misspelt name is an error: a parameter that silently does nothing costs a user a day.
func NewSettings(module string, known []Parameter, given map[string]string) *Settings {
	s := &Settings{module: module, values: make(map[string]string, len(known))}
	for _, p := range known {
		s.values[p.Name] = p.Default
	}
	var unknown []string
	for name, v := range given {
		if !strings.HasPrefix(name, module+".") {
			continue
		}
		if _, ok := s.values[name]; !ok {
			unknown = append(unknown, name)
		}
		s.values[name] = v
	}
	if unknown != nil {
		slices.Sort(unknown)
		s.err = fmt.Errorf("%s: unknown parameter %s", module, strings.Join(unknown, ", "))
	}
	return s
}

// Err returns the first error found so far, or nil.
func (s *Settings) Err() error { return s.err }

// Text returns a value as it is.
func (s *Settings) Text(name string) string { return s.values[name] }

// Number returns a value from lo to hi.
func (s *Settings) Number(name string, lo, hi int) int {
	n, err := strconv.Atoi(s.values[name])
	if err != nil || n < lo || n > hi {
		s.fail(name, fmt.Sprintf("a number from %d to %d", lo, hi))
	}
	return n
}

// Duration returns a value that is a positive span of time.
func (s *Settings) Duration(name string) time.Duration {
	d, err := time.ParseDuration(s.values[name])
	if err != nil || d <= 0 {
		s.fail(name, "a duration such as 10s")
	}
	return d
}

func (s *Settings) fail(name, want string) {
	if s.err == nil {
		s.err = fmt.Errorf("%s: parameter %s=%q: want %s", s.module, name, s.values[name], want)
	}
}
