package state

import (
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// A program may have children, and these children of their own: all of them are in one image, with the
// state of the first. Ids are those that the processes have for themselves. What lies outside
// the family has the id 0.

// Kin is what a process is to others of its family.
type Kin struct {
	ID      int `json:"id"`
	Parent  int `json:"parent"`
	Team    int `json:"team,omitempty"`    // its process group; 0: it is outside, as the one that the first is in may be
	Session int `json:"session,omitempty"` // 0: that of the first
	Sends   int `json:"sends,omitempty"`   // the signal that its parent gets at its end
	Death   int `json:"death,omitempty"`   // the signal that it asked for at its parent's end (PR_SET_PDEATHSIG)

	// Stopped is the signal that has stopped it, 0 if none has. Unseen: its parent was not told yet.
	Stopped int  `json:"stopped,omitempty"`
	Unseen  bool `json:"unseen,omitempty"`

	Status int    `json:"status,omitempty"` // of one that has ended, as wait gives it
	Name   string `json:"name,omitempty"`   // of one that has ended
}

// Ref is a descriptor of a process of the family.
type Ref struct {
	ID int `json:"id"`
	FD int `json:"fd"`
}

// maxFamily bounds how many processes descend from one.
const maxFamily = 1 << 12

// Prefix stands before the names of sections of a process that descends from the first.
func Prefix(id int) string { return strconv.Itoa(id) + "/" }

// Section gives the name of a section of this process.
func (s *State) Section(name string) string {
	if s.Kin == nil {
		return name
	}
	return Prefix(s.PID) + name
}

// All lists the first process and those that descend from it.
func (s *State) All() []*State { return append([]*State{s}, s.Members...) }

// AllFiles lists the descriptors of the family.
func (s *State) AllFiles() []File {
	var all []File
	for _, m := range s.All() {
		all = append(all, m.Files...)
	}
	return all
}

// Living lists what those that descend from the first are to each other.
func (s *State) Living() []Kin {
	var all []Kin
	for _, m := range s.Members {
		all = append(all, *m.Kin)
	}
	return all
}

// IDs lists the ids of the family: of its processes, the first one's first, with their threads, and of those that have ended.
func (s *State) IDs() []int {
	var all []int
	for _, m := range s.All() {
		for i := range m.Threads {
			all = append(all, m.Threads[i].TID)
		}
	}
	for i := range s.Ended {
		all = append(all, s.Ended[i].ID)
	}
	return all
}

// validFamily checks that each has its parent before it, and sessions and groups that
// it can come to be in.
func (s *State) validFamily() error {
	if s.Kin != nil || len(s.Members) != len(s.Family) || len(s.Ended) > maxFamily {
		return fmt.Errorf("a family of %d processes, %d and %d ended", len(s.Family), len(s.Members), len(s.Ended))
	}
	seen := map[int]bool{}
	for _, id := range s.IDs() {
		if id <= 0 || seen[id] {
			return fmt.Errorf("the id %d is there twice", id)
		}
		seen[id] = true
	}
	for i, m := range s.Members {
		if m.PID != s.Family[i] || m.Kin == nil || m.Kin.ID != m.PID || len(m.Members) > 0 || len(m.Ended) > 0 || m.Base != 0 {
			return fmt.Errorf("process %d is not %d of the family", m.PID, s.Family[i])
		}
	}
	if err := Related(s.PID, s.Living(), s.Ended); err != nil {
		return err
	}
	return s.validRefs()
}

// Related says why processes cannot be made again as a family: each by its parent, which
// comes before it and lives, in the session that the parent is in or was born into.
func Related(first int, living, ended []Kin) error {
	if len(living) > maxFamily || len(ended) > maxFamily {
		return fmt.Errorf("%d processes and %d that have ended: at most %d can be restored", len(living), len(ended), maxFamily)
	}
	teams := map[int]int{first: 0} // the session of each group that has its first process
	for _, k := range slices.Concat(living, ended) {
		if k.Team == k.ID {
			teams[k.Team] = k.Session
		}
	}
	known := map[int]*Kin{first: {ID: first, Team: first}}
	for i := range living {
		k := &living[i]
		if err := k.related(known, teams); err != nil {
			return err
		}
		known[k.ID] = k
	}
	for i := range ended {
		if err := ended[i].related(known, teams); err != nil {
			return err
		}
	}
	return nil
}

// related checks one.
func (k *Kin) related(known map[int]*Kin, teams map[int]int) error {
	p := known[k.Parent]
	session, ok := teams[k.Team]
	switch {
	case p == nil:
		return fmt.Errorf("the parent %d of process %d", k.Parent, k.ID)
	case k.Session != k.ID && k.Session != p.Session && k.Session != before(p, known):
		return fmt.Errorf("process %d is in the session %d, whose first process has ended", k.ID, k.Session)
	case k.Session == k.ID && k.Team != k.ID:
		return fmt.Errorf("process %d is the first of a session and not of its group", k.ID)
	case k.Team != 0 && (!ok || session != k.Session) || k.Team == 0 && k.Session != 0:
		return fmt.Errorf("process %d is in the process group %d, whose first process has ended", k.ID, k.Team)
	}
	for _, sig := range []int{k.Sends, k.Death, k.Stopped} {
		if sig < 0 || sig > NumSignals {
			return fmt.Errorf("process %d: signal %d", k.ID, sig)
		}
	}
	if k.Status < 0 || k.Status > 0xffff || len(k.Name) > 15 {
		return fmt.Errorf("process %d has ended with %#x", k.ID, k.Status)
	}
	return nil
}

// before gives the session that a process was born into.
func before(p *Kin, known map[int]*Kin) int {
	if parent := known[p.Parent]; p.Session == p.ID && parent != nil {
		return parent.Session
	}
	return p.Session
}

// Early tells a process that was born before its parent began a session of its own.
func (k *Kin) Early(parent *Kin) bool { return k.Session != k.ID && k.Session != parent.Session }

// validRefs checks descriptors that others of the family have, too.
func (s *State) validRefs() error {
	files := map[Ref]*File{}
	for _, m := range s.All() {
		for i := range m.Files {
			f := &m.Files[i]
			if f.From == nil {
				files[Ref{m.PID, f.FD}] = f
				continue
			}
			if o := files[*f.From]; o == nil || f.From.ID == m.PID || o.Kind != f.Kind || o.Same != o.FD || f.Same != f.FD {
				return fmt.Errorf("descriptor %d of process %d is said to be that of %d", f.FD, m.PID, f.From.ID)
			}
			files[Ref{m.PID, f.FD}] = f
		}
	}
	for _, m := range s.All() {
		for i := range m.Files {
			if err := m.Files[i].validTargets(s, m.PID, files); err != nil {
				return fmt.Errorf("descriptor %d of process %d: %w", m.Files[i].FD, m.PID, err)
			}
		}
	}
	return nil
}

// validTargets checks what a descriptor refers to: a process, descriptors in messages, the other end of a pair.
func (f *File) validTargets(s *State, id int, files map[Ref]*File) error {
	if f.Kind == FilePidfd && f.Target != s.PID && !slices.ContainsFunc(slices.Concat(s.Living(), s.Ended), func(k Kin) bool { return k.ID == f.Target }) {
		return fmt.Errorf("process %d", f.Target)
	}
	k := f.Socket
	if k == nil {
		return nil
	}
	for _, m := range k.Queue {
		if len(m.Of) != 0 && len(m.Of) != len(m.FDs) {
			return fmt.Errorf("%d descriptors of %d processes in a message", len(m.FDs), len(m.Of))
		}
		for i, fd := range m.FDs {
			whose := id
			if len(m.Of) > 0 {
				whose = m.Of[i]
			}
			if files[Ref{whose, fd}] == nil {
				return fmt.Errorf("descriptor %d of process %d in a message", fd, whose)
			}
		}
	}
	if k.Other == 0 || f.Same != f.FD {
		return nil
	}
	for _, o := range files {
		if o.Inode == k.Other && o.Socket != nil && o.Socket.Other == f.Inode && o.Same == o.FD {
			return nil
		}
	}
	return fmt.Errorf("the other end %d of a pair is none", k.Other)
}

// Code gives how a process has ended: a code, or a signal.
func (k *Kin) Code() (code int, sig unix.Signal) {
	w := unix.WaitStatus(k.Status)
	if w.Signaled() {
		return 0, w.Signal()
	}
	return w.ExitStatus(), 0
}
