package snapshot_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/snapshot"
)

// three makes a catalogue with three snapshots of the job.
func three() (c *snapshot.Catalogue, remove func()) {
	dir, err := os.MkdirTemp("", "snapshot")
	if err != nil {
		log.Fatal(err)
	}
	if c, err = snapshot.Open(dir); err != nil {
		log.Fatal(err)
	}
	for range 3 {
		take(c).Release()
	}
	return c, func() { os.RemoveAll(dir) }
}

// Open makes nothing: the folder need not exist before the first snapshot.
func ExampleOpen() {
	dir, _ := os.MkdirTemp("", "snapshot")
	defer os.RemoveAll(dir)
	c, err := snapshot.Open(filepath.Join(dir, "snapshots"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(filepath.Base(c.Root()), filepath.IsAbs(c.Root()))
	_, err = c.Find("latest")
	fmt.Println(errors.Is(err, snapshot.ErrNotFound))
	// Output:
	// snapshots true
	// true
}

func ExampleCatalogue_Root() { ExampleOpen() }

func ExampleCatalogue_Jobs() {
	c, remove := three()
	defer remove()
	jobs, err := c.Jobs()
	fmt.Println(jobs, err)
	id, err := c.FindJob("8a6e") // as a user types it
	fmt.Println(id, err)
	rel, _ := filepath.Rel(c.Root(), c.JobDir(id))
	fmt.Println(rel)
	// Output:
	// [8a6e0804-2bd0-4672-b79d-d97027f9071a] <nil>
	// 8a6e0804-2bd0-4672-b79d-d97027f9071a <nil>
	// 8a6e0804-2bd0-4672-b79d-d97027f9071a
}

func ExampleCatalogue_Trust() {
	c, remove := three()
	defer remove()
	others, err := c.Others() // in a folder in common; they are neither listed nor the latest
	fmt.Println(len(others), err)
	c.Trust() // the user has named one and trusts its owner
	s, err := c.Latest(job)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Own()) // else nothing is noted, added or removed there
	// Output:
	// 0 <nil>
	// true
}

func ExampleCatalogue_Others() { ExampleCatalogue_Trust() }
func ExampleSnapshot_Own()     { ExampleCatalogue_Trust() }

func ExampleCatalogue_FindJob() { ExampleCatalogue_Jobs() }
func ExampleCatalogue_JobDir()  { ExampleCatalogue_Jobs() }

func ExampleCatalogue_Find() {
	c, remove := three()
	defer remove()
	for _, spec := range []string{"latest", "8a6e", "8a6e/2", "8a6e/latest", c.JobDir(job)} {
		s, err := c.Find(spec)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(s.Schema.Sequence, " ")
	}
	_, err := c.Find("8a6e/4")
	fmt.Println(errors.Is(err, snapshot.ErrNotFound))
	// Output: 3 3 2 3 3 true
}

func ExampleCatalogue_Candidates() {
	c, remove := three()
	defer remove()
	for _, spec := range []string{"latest", "8a6e/3"} {
		all, _, err := c.Candidates(spec)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(all), "the newest is", all[0].Schema.Sequence)
	}
	// Output:
	// 3 the newest is 3
	// 1 the newest is 3
}

func ExampleSnapshot_Finish() {
	c, remove := three()
	defer remove()
	s, _ := c.Find("latest")
	fmt.Println(s.Finish()) // by the run that took it
	ended, err := s.Finished()
	fmt.Println(ended, err)
	_, err = c.Find("latest")
	fmt.Println(errors.Is(err, snapshot.ErrFinished))
	// Output:
	// <nil>
	// true <nil>
	// true
}

func ExampleSnapshot_Finished() { ExampleSnapshot_Finish() }

func ExampleCatalogue_Tails() {
	c, remove := three()
	defer remove()
	path := filepath.Join(c.Root(), "log.gorun-0123456789abcdef-tail") // left by a restart beside log
	if err := errors.Join(os.WriteFile(path, nil, 0o600), c.AddTail(job, path)); err != nil {
		log.Fatal(err)
	}
	all, err := c.Tails(job)
	fmt.Println(len(all), err)
	gone, err := c.RemoveTails(job)
	fmt.Println(len(gone), err)
	// Output:
	// 1 <nil>
	// 1 <nil>
}

func ExampleCatalogue_AddTail()     { ExampleCatalogue_Tails() }
func ExampleCatalogue_RemoveTails() { ExampleCatalogue_Tails() }

func ExampleCatalogue_Remove() {
	c, remove := three()
	defer remove()
	fmt.Println(c.Remove(job))
	jobs, err := c.Jobs()
	fmt.Println(len(jobs), err)
	// Output:
	// <nil>
	// 0 <nil>
}

func ExampleCatalogue_List() {
	c, remove := three()
	defer remove()
	all, err := c.List(job)
	for _, s := range all {
		fmt.Println(s.Schema.Sequence, s.Schema.NP, "rank", s.Bytes() > 0)
	}
	newest, _ := c.Latest(job)
	fmt.Println("newest:", newest.Schema.Sequence, err)
	// Output:
	// 1 1 rank true
	// 2 1 rank true
	// 3 1 rank true
	// newest: 3 <nil>
}

func ExampleCatalogue_Latest() { ExampleCatalogue_List() }
func ExampleSnapshot_Bytes()   { ExampleCatalogue_List() }

// A run goes on from its own snapshots, or from the one it was restarted from.
func ExampleCatalogue_LatestOf() {
	c, remove := three()
	defer remove()
	own, _ := c.LatestOf(job, "1f", 0)
	parent, _ := c.LatestOf(job, "2e", 2) // has taken none yet
	fmt.Println(own.Schema.Sequence, parent.Schema.Sequence)
	// Output: 3 2
}

func ExampleCatalogue_Prune() {
	c, remove := three()
	defer remove()
	pruned, err := c.Prune(job, 1)
	fmt.Println(pruned.Removed, err)
	take(c).Release()
	s, _ := c.Latest(job)
	fmt.Println(s.Schema.Sequence) // numbers are never used again
	// Output:
	// [1 2] <nil>
	// 4
}

func ExampleCatalogue_PruneChecked() {
	c, remove := three()
	defer remove()
	pruned, err := c.PruneChecked(job, 2)
	fmt.Println(pruned.Removed, err)
	// Output: [1] <nil>
}

func ExampleCatalogue_SweepAll() {
	c, remove := three()
	defer remove()
	crashed := filepath.Join(c.JobDir(job), "2") // as if it had not been committed
	if err := os.Remove(filepath.Join(crashed, snapshot.SchemaFile)); err != nil {
		log.Fatal(err)
	}
	gone, err := c.SweepAll()
	fmt.Println(len(gone), gone[0] == crashed, err)
	// Output: 1 true <nil>
}

func ExampleCatalogue_Begin() {
	dir, _ := os.MkdirTemp("", "snapshot")
	defer os.RemoveAll(dir)
	c, _ := snapshot.Open(dir)

	p, err := c.Begin(job)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Seq, filepath.Base(p.ImagePath(0)), p.ImagePath(0) == filepath.Join(p.Dir, snapshot.ImageFile(0)))

	_, err = c.Latest(job) // nothing is valid before Commit
	fmt.Println(errors.Is(err, snapshot.ErrNotFound) || errors.Is(err, snapshot.ErrNotCommitted))

	p.Discard() // the attempt has failed
	_, err = os.Stat(p.Dir)
	fmt.Println(errors.Is(err, os.ErrNotExist))
	_, _, err = p.Commit(snapshot.Schema{})
	fmt.Println(errors.Is(err, snapshot.ErrEnded))
	// Output:
	// 1 rank-00000.img true
	// true
	// true
	// true
}

func ExamplePending_ImagePath() { ExampleCatalogue_Begin() }
func ExamplePending_Discard()   { ExampleCatalogue_Begin() }
func ExampleImageFile()         { ExampleCatalogue_Begin() }

// The schema is written when all images are there; it makes the snapshot.
func ExamplePending_Commit() {
	dir, _ := os.MkdirTemp("", "snapshot")
	defer os.RemoveAll(dir)
	program, _ := os.Executable()
	digest, err := snapshot.FileDigest(program)
	if err != nil {
		log.Fatal(err)
	}

	c, _ := snapshot.Open(dir)
	p, err := c.Begin(job)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Discard() // does nothing after Commit
	meta := image.LocalMeta()
	meta.Job, meta.Incarnation, meta.Size, meta.Seq, meta.Backend = job, "1f", 1, p.Seq, "self"
	w, err := image.Create(p.ImagePath(0), meta, image.Options{})
	if err != nil {
		log.Fatal(err)
	}
	sum, err := w.Commit()
	if err != nil {
		log.Fatal(err)
	}
	s, hold, err := p.Commit(snapshot.Schema{
		Incarnation: "1f", NP: 1, Backend: "self", Transport: "tcp",
		Program:   snapshot.Program{Path: program, Digest: digest},
		Placement: []snapshot.Placement{{Rank: 0, Host: "localhost"}},
		Images: []snapshot.Image{{
			Rank: 0, File: snapshot.ImageFile(0), Size: sum.Size, Digest: sum.Digest, Codec: string(sum.Codec),
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Release() // from now on it may be pruned
	fmt.Println(s.Schema.Job == job, s.Schema.Sequence, len(digest))
	// Output: true 1 64
}

// An image of a whole process needs the very executable again: it is kept beside
// the snapshots, once.
func ExamplePending_KeepProgram() {
	dir, _ := os.MkdirTemp("", "snapshot")
	defer os.RemoveAll(dir)
	program, _ := os.Executable()
	digest, err := snapshot.FileDigest(program)
	if err != nil {
		log.Fatal(err)
	}
	c, _ := snapshot.Open(dir)
	hold, err := c.KeepProgram(job, program, digest) // as the job begins, or
	if err != nil {
		log.Fatal(err)
	}
	p, _ := c.Begin(job)
	fmt.Println(p.KeepProgram("/proc/self/exe", digest)) // with a snapshot: Commit notes it
	fmt.Println(p.KeepLibrary("/proc/self/exe", digest)) // what it maps, too
	p.Discard()

	s := &snapshot.Snapshot{Dir: p.Dir, Schema: &snapshot.Schema{Program: snapshot.Program{Digest: digest, Kept: true}}}
	st, err := os.Stat(s.ProgramPath())
	fmt.Println(st.Mode(), err)
	fmt.Println(s.LibraryPath(digest) == s.ProgramPath()) // each by its sum
	fmt.Println(p.KeepLibraries(s))                       // it has none

	hold.Release() // no snapshot names it: it may go
	gone, err := c.Sweep(job)
	fmt.Println(len(gone), err)
	// Output:
	// <nil>
	// <nil>
	// -r-x------ <nil>
	// true
	// <nil>
	// 1 <nil>
}

func ExampleCatalogue_KeepProgram() { ExamplePending_KeepProgram() }
func ExampleSnapshot_ProgramPath()  { ExamplePending_KeepProgram() }

// Of several copies of an image the first that is good is read.
func ExampleSnapshot_Good() {
	c, remove := three()
	defer remove()
	s, _ := c.Latest(job)
	r, err := s.Good(0).Open()
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	fmt.Println(r.Digest() == s.Schema.Images[0].Digest)
	// Output: true
}

func ExampleSnapshot_LibraryPath()  { ExamplePending_KeepProgram() }
func ExamplePending_KeepLibrary()   { ExamplePending_KeepProgram() }
func ExamplePending_KeepLibraries() { ExamplePending_KeepProgram() }

// A snapshot with incremental images is worth as much as those it builds on.
func ExampleSnapshot_Chain() {
	c, remove := three() // snapshot 3 could have built on 2
	defer remove()
	s, _ := c.Latest(job)
	s.Schema.Images[0].Base = 2
	chain, err := s.Chain()
	for _, l := range chain {
		fmt.Println(l.Schema.Sequence, l.Schema.Bases())
	}
	fmt.Println(err, s.BasePath(0, 2) == chain[1].ImagePath(0))

	os.Remove(chain[1].SchemaPath())
	_, err = s.Chain()
	fmt.Println(errors.Is(err, snapshot.ErrChain))
	// Output:
	// 3 [2]
	// 2 []
	// <nil> true
	// true
}

func ExampleSnapshot_BasePath() { ExampleSnapshot_Chain() }
func ExampleSchema_Bases()      { ExampleSnapshot_Chain() }

func ExampleHold_Release() { ExamplePending_Commit() }
func ExampleFileDigest()   { ExamplePending_Commit() }

func ExampleLoad() {
	c, remove := three()
	defer remove()
	s, err := snapshot.Load(filepath.Join(c.JobDir(job), "2"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Schema.Sequence, filepath.Base(s.SchemaPath()), filepath.Base(s.ImagePath(0)))
	// Output: 2 schema.toml rank-00000.img
}

func ExampleSnapshot_SchemaPath() { ExampleLoad() }
func ExampleSnapshot_ImagePath()  { ExampleLoad() }

// Check is quick, Verify reads everything; both name the rank that suffers.
func ExampleSnapshot_Verify() {
	c, remove := three()
	defer remove()
	s, err := c.Latest(job)
	if err != nil {
		log.Fatal(err)
	}
	var read int64
	err = s.Verify(func(done, total int64) { read = done })
	fmt.Println(s.Check(), err, read == s.Bytes())

	os.Truncate(s.ImagePath(0), 10)
	err = s.Check()
	var bad *snapshot.ImageError
	fmt.Println(errors.As(err, &bad), bad.Rank, errors.Is(err, snapshot.ErrImage))
	// Output:
	// <nil> <nil> true
	// true 0 true
}

func ExampleSnapshot_Check() { ExampleSnapshot_Verify() }

func ExampleImageError() {
	err := &snapshot.ImageError{Rank: 3, Path: snapshot.ImageFile(3), Err: os.ErrNotExist}
	fmt.Println(err)
	fmt.Println(errors.Is(err, os.ErrNotExist))
	// Output:
	// rank 3: image rank-00003.img: file does not exist (bring the file back or restart from another snapshot)
	// true
}

func ExampleImageError_Error()  { ExampleImageError() }
func ExampleImageError_Unwrap() { ExampleImageError() }

func ExampleReadSchema() {
	c, remove := three()
	defer remove()
	newest, _ := c.Latest(job)
	s, err := snapshot.ReadSchema(newest.SchemaPath())
	if err != nil {
		log.Fatal(err)
	}
	text, err := s.Encode()
	if err != nil {
		log.Fatal(err)
	}
	again, err := snapshot.ParseSchema(text)
	fmt.Println(again.Sequence, again.Transport, err)

	_, err = snapshot.ParseSchema([]byte("format = 9"))
	fmt.Println(errors.Is(err, snapshot.ErrFormat)) // of a newer gorun
	_, err = snapshot.ParseSchema([]byte("format = 1"))
	fmt.Println(errors.Is(err, snapshot.ErrSchema)) // everything else is missing
	// Output:
	// 3 tcp <nil>
	// true
	// true
}

func ExampleParseSchema()   { ExampleReadSchema() }
func ExampleSchema_Encode() { ExampleReadSchema() }

func ExampleSchema_Parent() {
	first := snapshot.Schema{}
	_, restarted := first.Parent()
	fmt.Println(restarted)
	s := snapshot.Schema{Lineage: []snapshot.Ancestor{{Incarnation: "1f", Sequence: 3}, {Incarnation: "2e", Sequence: 5}}}
	p, restarted := s.Parent()
	fmt.Println(p.Incarnation, p.Sequence, restarted)
	// Output:
	// false
	// 2e 5 true
}
