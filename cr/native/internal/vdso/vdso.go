// Package vdso reads the code that the kernel puts into every process, and bridges the
// gap where a restored program has the addresses of another kernel's.
package vdso

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"

	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// Read sums the bytes of a vdso up and lists the functions it offers,
// as offsets from its start.
func Read(p []byte) (sum string, symbols map[string]uint64, err error) {
	if len(p) > state.MaxVDSO {
		return "", nil, fmt.Errorf("vdso of %d bytes", len(p))
	}
	digest := sha256.Sum256(p)
	f, err := elf.NewFile(bytes.NewReader(p))
	if err != nil {
		return "", nil, fmt.Errorf("vdso: %w", err)
	}
	list, err := f.DynamicSymbols()
	if err != nil {
		return "", nil, fmt.Errorf("symbols of the vdso: %w", err)
	}
	symbols = make(map[string]uint64)
	for _, s := range list {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF && s.Value < uint64(len(p)) {
			symbols[s.Name] = s.Value
		}
	}
	return hex.EncodeToString(digest[:]), symbols, nil
}
