package image

import (
	"bytes"
	"errors"
	"testing"
)

// Blocks of zeros take no room in an image. What is made of them has to have room in memory, or it is refused.
func TestFits(t *testing.T) {
	s := &section{name: "huge", kind: "k", blockSize: maxBlock, size: maxSize}
	s.blocks = make([]block, blockCount(s.size, s.blockSize))
	for i := range s.blocks {
		s.blocks[i].codec = codecZero
	}
	head := header{version: Version, metaLen: 2, metaSum: checksum([]byte("{}"))}
	img := append(head.encode(), "{}"...)
	table := encodeTable([]*section{s})
	tr := trailer{tableOff: uint64(len(img)), tableLen: uint64(len(table)), digest: digest(img, table)}
	tr.fileSize = tr.tableOff + tr.tableLen + trailSize
	img = append(append(img, table...), tr.encode()...)
	r, err := NewReader(bytes.NewReader(img), int64(len(img)), "mem")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Bytes("k", "huge"); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if _, err := r.Bytes("k", "none"); !errors.Is(err, ErrNoSection) {
		t.Error(err)
	}
}
