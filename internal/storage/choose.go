package storage

import (
	"slices"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// Choice is what a life begins from.
type Choice struct {
	From *snapshot.Snapshot // nil: there is none that is sound
	Any  bool               // there was a snapshot to choose from
}

// Choose finds what a restart goes on from: the newest sound snapshot of the own chain. Snapshots
// that were passed over come last. tried is the snapshot that the life before began with, nil for
// the start. usable says why the head cannot go on from a snapshot with a note; it is called beside
// the head's goroutine. An error means that another head has taken the job.
func (sv *Service) Choose(left []int, tried *snapshot.Snapshot, usable func(note any) error, done func(Choice, error)) {
	chain, files := sv.byChoice(left), sv.opt.Files
	go func() {
		if err := sv.taken(); err != nil { // this head may have stood still
			sv.post(func() { done(Choice{}, err) })
			return
		}
		found := Choice{Any: len(chain) > 0}
		for _, c := range chain {
			err := usable(c.note)
			if err == nil {
				err = spec.CheckRestart(c.snap, files)
			}
			if err == nil && tried != nil && c.snap.Dir == tried.Dir && c.snap.Schema.Backend != wire.BackendSelf {
				// The life that began with this snapshot took no other. Perhaps it could not
				// read it. So all of it is checked, which takes longer.
				err = c.snap.Verify(nil)
			}
			if err == nil {
				found.From = c.snap
				break
			}
			sv.post(func() { sv.say("snapshot %d cannot be used: %v", c.snap.Schema.Sequence, err) })
		}
		sv.post(func() { done(found, nil) })
	}()
}

// byChoice is the chain, in the order in which a restart takes what is sound.
func (sv *Service) byChoice(left []int) (chain []commit) {
	for _, last := range []bool{false, true} {
		for _, c := range slices.Backward(sv.chain) {
			if slices.Contains(left, c.snap.Schema.Sequence) == last {
				chain = append(chain, c)
			}
		}
	}
	return chain
}

// Sound finds the snapshot that the job begins from, if that could not be decided before its nodes
// were up. It is safe beside the head's goroutine.
func (sv *Service) Sound() (*snapshot.Snapshot, error) {
	return spec.Sound(append([]*snapshot.Snapshot{sv.opt.From}, sv.opt.Older...), sv.opt.NP, sv.opt.Files, func(s *snapshot.Snapshot, why error) {
		sv.say("snapshot %d of job %s cannot be used: %v", s.Schema.Sequence, s.Schema.Job, why)
	}, spec.Slow{After: spec.SlowAfter, Tell: func(line string) { sv.say("%s", line) }})
}

// BeginFrom changes what the first life begins from.
func (sv *Service) BeginFrom(s *snapshot.Snapshot, note any) error {
	hold, err := s.Hold()
	if err != nil {
		return err
	}
	sv.chain[0].hold.Release()
	sv.opt.From = s
	sv.chain[0] = commit{snap: s, hold: hold, note: note}
	sv.keeps()
	sv.say("job %s goes on from snapshot %d instead", sv.id, s.Schema.Sequence)
	return nil
}

// Outlives is the schema of the newest snapshot that is not in memory alone, "" if there is none.
// Snapshots in memory end with the job.
func (sv *Service) Outlives() string {
	for _, c := range slices.Backward(sv.chain) {
		now, err := sv.cat.Load(c.snap.Dir)
		if err == nil && slices.ContainsFunc(now.Copies(), func(c snapshot.Copy) bool { return c.Place() != memPlace }) {
			return now.SchemaPath()
		}
	}
	return ""
}
