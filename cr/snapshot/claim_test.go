package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gorun-mpi/gorun/internal/system/alive"
)

func TestClaim(t *testing.T) {
	c, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	job := uuid.NewString()
	if _, err := c.Claim("../elsewhere", Claimant{}); err == nil {
		t.Error("a claim outside of the catalogue")
	}
	by := Claimant{Host: "n1", Lease: 15000, Line: "x", Process: alive.Process{PID: 7, Start: 8, Machine: "m"}}
	former, err := c.Claim(job, by)
	if err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-20 * time.Second)
	if err := os.Chtimes(former.path, past, past); err != nil {
		t.Fatal(err)
	}
	own, err := c.Claim(job, Claimant{Host: "n2"})
	if err != nil {
		t.Fatal(err)
	}
	one := func() OtherClaim {
		t.Helper()
		others, err := own.Others()
		if err != nil || len(others) != 1 {
			t.Fatal(others, err)
		}
		return others[0]
	}
	away := c.JobDir(job) + "-away"
	if err := os.Rename(c.JobDir(job), away); err != nil {
		t.Fatal(err)
	}
	if err := own.Touch(); err == nil || errors.Is(err, ErrTaken) {
		t.Error("the folder is away:", err)
	}
	if err := os.Rename(away, c.JobDir(job)); err != nil {
		t.Fatal(err)
	}
	o := one()
	if o.Claimant != by || o.Age < 19*time.Second {
		t.Error(o)
	}
	if err := former.Touch(); err != nil {
		t.Fatal(err)
	}
	if now := one(); now.Age > o.Age-10*time.Second || now.Claimant != o.Claimant {
		t.Error("touched, and yet", now)
	}
	if err := one().Take(); err != nil {
		t.Fatal(err)
	}
	if err := former.Touch(); !errors.Is(err, ErrTaken) {
		t.Error("a claim that was taken:", err)
	}
	if err := former.Close(); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"", "{", "[]", `{"lease":-1}`, `{"lease":9999999999999}`} {
		if err := os.WriteFile(filepath.Join(c.JobDir(job), claimPrefix+"x"+claimSuffix), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if others, err := own.Others(); err == nil {
			t.Errorf("%q is taken for a claim: %v", text, others)
		}
	}
	if err := c.Remove(job); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(c.JobDir(job)); !errors.Is(err, os.ErrNotExist) {
		t.Error("claims stay behind:", err)
	}
}

// TestClaimsAtOnce has heads claim a job while another looks: each claim is whole or absent.
func TestClaimsAtOnce(t *testing.T) {
	c, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	job := uuid.NewString()
	own, err := c.Claim(job, Claimant{Host: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	const claims = 300
	made := make(chan error, 1)
	go func() {
		for range claims {
			other, err := c.Claim(job, Claimant{Host: "n2", Lease: 15000})
			if err == nil {
				err = other.Close()
			}
			if err != nil {
				made <- err
				return
			}
		}
		made <- nil
	}()
	for {
		others, err := own.Others()
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range others {
			if o.Host != "n2" || o.Lease != 15000 {
				t.Fatal(o)
			}
		}
		select {
		case err := <-made:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
	}
}
