// Package storeurl opens stores by the names in options and schemas: a kind, and the folder that
// distinguishes it from others of the kind. The head, agents and commands all open stores here.
//
//	dir           a folder that all see
//	s3            s3://BUCKET/PREFIX?endpoint=URL&region=NAME
//	node, mem     parts on nodes: how they are reached, the caller knows
//	KIND+sealed   any of them, sealed; KEYFILE:folder
package storeurl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/s3"
	"github.com/gorun-mpi/gorun/cr/store/sealed"
)

// Place is a kind and a folder.
type Place struct{ Kind, Folder string }

// ErrKind says that a kind is unknown.
var ErrKind = errors.New("this gorun does not know the kind of store")

// Opener opens stores.
type Opener struct {
	// Env is where an object store's credentials are looked up, NAME=VALUE. Other variables are
	// looked up in the environment of this process.
	Env []string
	// Parts opens a store that is spread over nodes. It returns ErrKind for a kind that is not.
	Parts func(Place) (store.Store, error)
}

// Open opens the store at a place.
func (o Opener) Open(p Place) (store.Store, error) {
	keyFile, inner, isSealed := p.split()
	st, err := o.open(inner)
	if err != nil || !isSealed {
		return st, err
	}
	return sealed.Wrap(st, keyFile)
}

func (o Opener) open(p Place) (store.Store, error) {
	switch p.Kind {
	case store.KindDir:
		return store.OpenDir(p.Folder), nil
	case s3.Kind:
		c, err := s3.Parse(p.Folder)
		if err != nil {
			return nil, err
		}
		c.Getenv = Getenv(o.Env)
		return s3.Open(c)
	}
	return o.Parts(p)
}

// Getenv looks a variable up in an environment, else in that of this process.
func Getenv(env []string) func(string) string {
	return func(name string) string {
		for i := len(env) - 1; i >= 0; i-- {
			if v, ok := strings.CutPrefix(env[i], name+"="); ok {
				return v
			}
		}
		return os.Getenv(name)
	}
}

func (p Place) split() (keyFile string, inner Place, isSealed bool) {
	keyFile, kind, folder, isSealed := sealed.Split(p.Kind, p.Folder)
	return keyFile, Place{kind, folder}, isSealed
}

// Inner is the place without the seal.
func (p Place) Inner() Place {
	_, inner, _ := p.split()
	return inner
}

// KeyFile is the file with the key of a place that is sealed, else "".
func (p Place) KeyFile() string {
	keyFile, _, _ := p.split()
	return keyFile
}

// WithFolder is the place with another folder, sealed alike.
func (p Place) WithFolder(folder string) Place {
	keyFile, inner, isSealed := p.split()
	if inner.Folder = folder; !isSealed {
		return inner
	}
	return inner.Sealed(keyFile)
}

// Sealed is the place, sealed with the key of a file.
func (p Place) Sealed(keyFile string) Place {
	kind, folder := sealed.Place(keyFile, p.Kind, p.Folder)
	return Place{kind, folder}
}

// SealedFolder is the folder of sealed images in a folder for snapshots. No job has such a name.
const SealedFolder = "sealed"

// Beside is the place of the images of a folder for snapshots that has no other place for them.
// They lie beside their schemas, the zero value, or, if sealed with the key of a file, in a folder
// of their own.
func Beside(root, keyFile string) Place {
	if keyFile == "" {
		return Place{}
	}
	return Place{Kind: store.KindDir, Folder: filepath.Join(root, SealedFolder)}.Sealed(keyFile)
}

// Unknown is the error for an unknown kind.
func Unknown(p Place) error { return fmt.Errorf("%s %s: %w %q", p.Kind, p.Folder, ErrKind, p.Kind) }
