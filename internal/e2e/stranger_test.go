package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Two users of one machine, who have a folder of snapshots in common.
const (
	victimID   = 23001
	strangerID = 23002
)

// stranger is a scene with both.
type stranger struct {
	t                   *testing.T
	dir                 string // in common, 1777, as is all that is not said to be of one of them
	victim, he          *house
	victimJob, hisJob   string
	victimSchema, hisIs string
}

// people makes the scene: the user's job, and later one of the stranger's, both of them stopped.
func people(t *testing.T) *stranger {
	if os.Getuid() != 0 {
		t.Skip("becoming two users needs root")
	}
	s := &stranger{t: t, dir: t.TempDir()}
	for dir := s.dir; strings.HasPrefix(filepath.Base(filepath.Dir(dir)), "TestStranger"); dir = filepath.Dir(dir) {
		s.check(os.Chmod(filepath.Dir(dir), 0o755))
	}
	s.check(os.Chmod(s.dir, fs.ModeSticky|0o777))
	ck := filepath.Join(s.dir, "ck")
	s.check(os.Mkdir(ck, 0o700))
	s.check(os.Chmod(ck, fs.ModeSticky|0o777))
	home := func(id int) *house {
		h := newHouse(t)
		at := s.folder(filepath.Join(s.dir, "home"+string(rune('0'+id%10))), id, 0o700)
		h.run, h.ckpt = at, ck
		h.user = &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}
		h.env = []string{"HOME=" + at, "TMPDIR=" + s.dir}
		return h
	}
	s.victim, s.he = home(victimID), home(strangerID)
	s.victimJob, s.victimSchema = s.stopped(s.victim)
	s.hisJob, s.hisIs = s.stopped(s.he)
	s.check(filepath.WalkDir(filepath.Dir(filepath.Dir(s.hisIs)), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(path, map[bool]fs.FileMode{true: 0o755, false: 0o644}[d.IsDir()])
	}))
	return s
}

func (s *stranger) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// folder makes a folder of a user's.
func (s *stranger) folder(path string, id int, mode fs.FileMode) string {
	s.t.Helper()
	s.check(os.Mkdir(path, 0o700))
	s.check(os.Chown(path, id, id))
	s.check(os.Chmod(path, mode))
	return path
}

// his makes the stranger the owner of something.
func (s *stranger) his(path string) { s.t.Helper(); s.check(os.Lchown(path, strangerID, strangerID)) }

// work is the program of both, with arguments.
func work() []string {
	return []string{filepath.Join(bin, "solver"), "-poisson", "16", "-iters", "300000", "-tol", "0", "-slow", "3ms"}
}

// stopped runs a job of a user's until it was checkpointed and stopped.
func (s *stranger) stopped(h *house) (job, schema string) {
	file := filepath.Join(h.run, "job")
	p := h.start(append([]string{"-np", "1", "-cr=self", "-jobid-file", file}, work()...)...)
	job = jobID(s.t, p, file)
	schema = strings.TrimSpace(h.must("checkpoint", "-stop", job))
	p.wait()
	return filepath.Base(filepath.Dir(filepath.Dir(schema))), schema
}

// TestStranger: whatever another user puts where both may write, no verb reads, follows, removes, runs or waits for it.
func TestStranger(t *testing.T) {
	s := people(t)
	v := s.victim

	results := s.folder(filepath.Join(v.run, "results"), victimID, 0o700)
	for _, name := range []string{"1", "2024"} {
		at := s.folder(filepath.Join(results, name), victimID, 0o700)
		s.check(os.WriteFile(filepath.Join(at, "data"), []byte("precious"), 0o600))
		s.check(os.Chown(filepath.Join(at, "data"), victimID, victimID))
	}
	s.plantStores(results)
	s.plantPipes()

	t.Run("lists", func(t *testing.T) {
		for _, args := range [][]string{{"snapshots"}, {"snapshots", "-verify"}, {"snapshots", "-scrub"}, {"snapshots", "-prune"}} {
			out, errs, code := v.gorun(args...)
			if code != 0 || !strings.Contains(out, s.victimJob) || strings.Contains(out, s.hisJob) || !strings.Contains(errs, "jobs of other users") || strings.Contains(errs, "removed") {
				t.Errorf("%q: exit %d\n%s%s", args, code, out, errs)
			}
		}
	})
	t.Run("named", func(t *testing.T) {
		out := filepath.Join(v.run, "out")
		for _, args := range [][]string{
			{"restart", s.hisJob}, {"restart", s.hisIs}, {"restart", filepath.Dir(s.hisIs)}, {"restart", s.hisIs, "--", work()[0]},
			{"snapshots", s.hisJob}, {"snapshots", s.hisIs}, {"snapshots", "-remove", s.hisJob}, {"snapshots", "-tails", "-remove", s.hisJob},
			{"snapshots", "-export", out, s.hisIs}, {"image", "export", "-o", out, s.hisIs},
		} {
			text, errs, code := v.gorun(args...)
			if code == 0 || !strings.Contains(errs, "uid 23002") {
				t.Errorf("%q: exit %d\n%s%s", args, code, text, errs)
			}
		}
		if _, err := os.Stat(s.hisIs); err != nil {
			t.Error(err)
		}
	})
	t.Run("trusted", func(t *testing.T) {
		if out := v.must("snapshots", "-trust", "-verify", s.hisJob); !strings.Contains(out, s.hisJob) {
			t.Errorf("with -trust:\n%s", out)
		}
	})
	t.Run("latest", func(t *testing.T) {
		_, errs, _ := v.gorun("restart", "-timeout", "1s", "latest")
		if !strings.Contains(errs, "job "+s.victimJob+" goes on") {
			t.Errorf("restart latest:\n%s", errs)
		}
	})
	t.Run("restart-latest", func(t *testing.T) {
		v.must("snapshots", "-remove", s.victimJob)
		_, errs, _ := v.gorun(append([]string{"-np", "1", "-cr=self", "-restart-latest", "-timeout", "1s"}, work()...)...)
		if !strings.Contains(errs, "the job begins") || strings.Contains(errs, s.hisJob) {
			t.Errorf("-restart-latest:\n%s", errs)
		}
	})
	t.Run("import", func(t *testing.T) {
		file := filepath.Join(s.dir, "parcel.tar.zst")
		s.he.must("snapshots", "-export", file, s.hisJob)
		s.check(os.Chmod(file, 0o644))
		if out, errs, code := v.gorun("snapshots", "-ckpt-dir", filepath.Join(v.run, "ck"), "-import", file); code == 0 || !strings.Contains(errs, "-trust") {
			t.Errorf("import of another's file: exit %d\n%s%s", code, out, errs)
		}
	})
	t.Run("jobid-file", func(t *testing.T) {
		link := filepath.Join(s.dir, "jobid")
		s.check(os.Symlink(filepath.Join(results, "1", "data"), link))
		s.his(link)
		if _, errs, code := v.gorun("-jobid-file", link, "/bin/true"); code == 0 || !strings.Contains(errs, "a link of another user") {
			t.Errorf("exit %d\n%s", code, errs)
		}
		pipe := filepath.Join(s.dir, "pipe")
		s.check(syscall.Mkfifo(pipe, 0o622))
		s.his(pipe)
		if _, errs, code := v.gorun("-jobid-file", pipe, "/bin/true"); code == 0 || !strings.Contains(errs, "uid 23002") {
			t.Errorf("exit %d\n%s", code, errs)
		}
	})
	t.Run("output-dir", func(t *testing.T) {
		out := s.folder(filepath.Join(s.dir, "out"), strangerID, 0o777)
		for _, name := range []string{".gorun", "rank.0.out"} {
			link := filepath.Join(out, name)
			s.check(os.Symlink(filepath.Join(results, "1", "data"), link))
			s.his(link)
			if _, errs, code := v.gorun("-output-dir", out, "/bin/true"); code == 0 || !strings.Contains(errs, "a link of another user") {
				t.Errorf("%s: exit %d\n%s", name, code, errs)
			}
			s.check(os.Remove(link))
		}
	})
	t.Run("ckpt-local", func(t *testing.T) {
		at := s.folder(filepath.Join(s.dir, "local"), strangerID, 0o777)
		mine := s.folder(filepath.Join(at, "mine"), victimID, 0o700)
		_, errs, code := v.gorun("-np", "1", "-cr=self", "-ckpt-local", mine, "-timeout", "20s", "-ckpt-every", "100ms", work()[0], "-poisson", "16", "-iters", "300", "-tol", "0", "-slow", "3ms")
		if !strings.Contains(errs, "belongs to another user, uid 23002") {
			t.Errorf("exit %d\n%s", code, errs)
		}
	})
	for _, name := range []string{"1", "2024"} {
		if b, err := os.ReadFile(filepath.Join(results, name, "data")); err != nil || string(b) != "precious" {
			t.Errorf("the user's own results: %q, %v", b, err)
		}
	}
}

// plantStores plants a job whose stores lead into a folder of the user's.
func (s *stranger) plantStores(to string) {
	const job = "11111111-2222-4333-8444-555555555555"
	jobDir := s.folder(filepath.Join(s.victim.ckpt, job), strangerID, 0o777)
	at := s.folder(filepath.Join(s.dir, "st"), strangerID, 0o755)
	s.folder(filepath.Join(at, job), strangerID, 0o755)
	s.check(os.Symlink(to, filepath.Join(at, job, "abcdefgh")))
	s.his(filepath.Join(at, job, "abcdefgh"))
	var st syscall.Stat_t
	s.check(syscall.Stat(jobDir, &st))
	text := "home = \"abcdefgh\"\nfolder = \"" + strconv.FormatUint(st.Ino, 10) + "\"\nnodes = []\n[[store]]\nkind = \"dir\"\nfolder = \"" + at + "\"\n"
	s.check(os.WriteFile(filepath.Join(jobDir, "stores"), []byte(text), 0o644))
	s.his(filepath.Join(jobDir, "stores"))
}

// plantPipes plants pipes and links where files and folders are looked for.
func (s *stranger) plantPipes() {
	job := s.folder(filepath.Join(s.victim.ckpt, "22222222-2222-4333-8444-555555555555"), strangerID, 0o777)
	one := s.folder(filepath.Join(job, "1"), strangerID, 0o777)
	for _, path := range []string{filepath.Join(one, "schema.toml"), filepath.Join(one, "lock"), filepath.Join(job, "lock"), filepath.Join(job, "finished"),
		filepath.Join(s.victim.ckpt, "33333333-2222-4333-8444-555555555555"), filepath.Join(s.dir, "gorun-stage-0123456789abcdef")} {
		s.check(syscall.Mkfifo(path, 0o666))
		s.his(path)
	}
	link := filepath.Join(s.victim.ckpt, "44444444-2222-4333-8444-555555555555")
	s.check(os.Symlink(s.victim.run, link))
	s.his(link)
}
