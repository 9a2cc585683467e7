package state

import (
	"fmt"
	"slices"
)

// Terminal is a pseudo-terminal both of whose sides the family has, or one whose other side is gone. It has its
// number again in a namespace that the family has for itself.
type Terminal struct {
	Number   int       `json:"number"`
	Gone     bool      `json:"gone,omitempty"`     // it has hung up, and has nothing of the following
	Settings []byte    `json:"settings,omitempty"` // struct termios2
	Size     [4]uint16 `json:"size,omitzero"`      // struct winsize
	Locked   bool      `json:"locked,omitempty"`
	Session  int       `json:"session,omitempty"` // that it controls, 0: none
	Team     int       `json:"team,omitempty"`    // the process group in the foreground of that, 0: that of who leads it

	Lines  [][]byte `json:"lines,omitempty"`  // that were typed and not read; one that is no line ends with the end of the file
	Typed  []byte   `json:"typed,omitempty"`  // the beginning of a line, or what was typed where lines are nothing
	Output []byte   `json:"output,omitempty"` // that the other side has not read
}

// Bounds of terminals.
const (
	SettingsSize = 44
	MaxTerminals = 4096 // below this are their numbers: it takes one of each to have one of a number
	maxTyped     = 4096
	maxOutput    = 1 << 20
)

// Typing is the number of bytes that wait to be read.
func (t *Terminal) Typing() int {
	n := len(t.Typed)
	for _, line := range t.Lines {
		n += len(line)
	}
	return n
}

// TerminalOf finds the one with a number.
func (s *State) TerminalOf(number int) *Terminal {
	i := slices.IndexFunc(s.Terminals, func(t Terminal) bool { return t.Number == number })
	if i < 0 {
		return nil
	}
	return &s.Terminals[i]
}

// validTerminals checks those of the family, and the descriptors of their sides.
func (s *State) validTerminals() error {
	if len(s.Terminals) > MaxTerminals {
		return fmt.Errorf("%d terminals", len(s.Terminals))
	}
	controls := map[int]bool{}
	for i := range s.Terminals {
		t := &s.Terminals[i]
		if err := s.validTerminal(t); err != nil {
			return fmt.Errorf("terminal %d: %w", t.Number, err)
		}
		if s.TerminalOf(t.Number) != t || controls[t.Session] {
			return fmt.Errorf("terminal %d is there twice, or its session %d", t.Number, t.Session)
		}
		controls[t.Session] = t.Session != 0
	}
	masters := map[int]int{}
	for _, m := range s.All() {
		if m != s && len(m.Terminals) > 0 {
			return fmt.Errorf("process %d has terminals of its own", m.PID)
		}
		for i := range m.Files {
			f := &m.Files[i]
			if f.Kind != FilePty {
				continue
			}
			if t := s.TerminalOf(f.Number); t == nil || t.Gone && f.Master {
				return fmt.Errorf("descriptor %d of terminal %d", f.FD, f.Number)
			}
			if f.Master && f.First() {
				masters[f.Number]++
			}
		}
	}
	for i := range s.Terminals {
		if t := &s.Terminals[i]; !t.Gone && masters[t.Number] != 1 {
			return fmt.Errorf("the other side of terminal %d is there %d times", t.Number, masters[t.Number])
		}
	}
	return nil
}

func (s *State) validTerminal(t *Terminal) error {
	leads := func(k Kin) bool { return k.ID == t.Session && k.Session == t.Session }
	member := func(k Kin) bool { return k.Team == t.Team && k.Session == t.Session }
	switch living := s.Living(); {
	case t.Number < 0 || t.Number >= MaxTerminals:
		return fmt.Errorf("number %d", t.Number)
	case t.Gone != (len(t.Settings) == 0) || !t.Gone && len(t.Settings) != SettingsSize:
		return fmt.Errorf("settings of %d bytes", len(t.Settings))
	case t.Typing() > maxTyped || len(t.Lines) > maxTyped || len(t.Output) > maxOutput || t.Gone && t.Typing()+len(t.Output) > 0:
		return fmt.Errorf("%d bytes to be read, %d written", t.Typing(), len(t.Output))
	case t.Session != 0 && !slices.ContainsFunc(living, leads) || t.Gone && t.Session != 0:
		return fmt.Errorf("session %d", t.Session)
	case t.Team != 0 && !slices.ContainsFunc(living, member) || t.Team != 0 && t.Session == 0:
		return fmt.Errorf("process group %d", t.Team)
	}
	return nil
}
