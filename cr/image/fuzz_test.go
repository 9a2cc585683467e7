package image

import (
	"bytes"
	"os"
	"testing"
)

// readAll does with an image whatever a reader can do, up to a total size.
func readAll(p []byte) {
	r, err := NewReader(bytes.NewReader(p), int64(len(p)), "fuzz")
	if err != nil {
		return
	}
	defer r.Close()
	verified := r.Verify()
	for _, s := range r.Sections() {
		if s.Size > 32<<20 {
			continue
		}
		err := r.ReadSection(s.Kind, s.Name, make([]byte, s.Size))
		if verified == nil && err != nil {
			panic("verified, and then: " + err.Error())
		}
		err = r.ReadRange(s.Kind, s.Name, s.Size/3, make([]byte, s.Size/2))
		if verified == nil && err != nil {
			panic("verified, and then a part: " + err.Error())
		}
	}
}

// FuzzReader gives the reader whole files. Fuzz it with -fuzzminimizetime 20x:
// blocks are read by several goroutines, so that coverage varies and minimizing
// an input never ends by itself.
func FuzzReader(f *testing.F) {
	f.Add(smallImage(f))
	old, err := os.ReadFile("testdata/version1.img")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(old)
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, p []byte) { readAll(p) })
}

// FuzzTable gives the reader tables whose sums are right, so that what stands
// behind the digest is reached.
func FuzzTable(f *testing.F) {
	p := smallImage(f)
	off := le.Uint64(p[len(p)-trailSize:])
	f.Add(false, p[headerSize:headerSize+le.Uint32(p[12:])], p[4096:off], p[off:len(p)-trailSize])
	f.Add(true, []byte("{}"), []byte{}, []byte{0, 0, 0, 0})
	f.Add(false, []byte("{}"), []byte{}, encodeTable([]*section{{name: "z", blockSize: 4096, size: 4096, blocks: []block{{codec: codecZero}}}}))
	f.Fuzz(func(t *testing.T, old bool, meta, blocks, table []byte) {
		h := header{version: Version, metaLen: uint32(len(meta)), metaSum: checksum(meta)}
		if old {
			h.version = versionDigests - 1
		}
		img := append(h.encode(), meta...)
		head := img[:len(img):len(img)]
		img = append(img, make([]byte, alignUp(int64(len(img)))-int64(len(img)))...)
		img = append(img, blocks...)
		tr := trailer{tableOff: uint64(len(img)), tableLen: uint64(len(table)), digest: digest(head, table)}
		tr.fileSize = tr.tableOff + tr.tableLen + trailSize
		img = append(append(img, table...), tr.encode()...)
		readAll(img)
	})
}
