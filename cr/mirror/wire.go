package mirror

import (
	"encoding/json"
	"fmt"
	"hash/crc32"

	"github.com/gorun-mpi/gorun/cr/mirror/internal/machine"
	"github.com/gorun-mpi/gorun/internal/storage/twoslots"
)

// blockSize is the length of the blocks in which images travel, and of what has a sum of its own: short enough not to hold up
// messages of the program for long.
const blockSize = 1 << 20

// What blocks are.
const (
	isMsg   = "msg"   // of the protocol
	isPart  = "part"  // of an image on its way to a holder
	isSame  = "same"  // blocks of such an image that are those of the base
	isWant  = "want"  // asks for a piece
	isPiece = "piece" // answers it
	isEnd   = "end"   // the answer is over
)

// head comes with each block. JSON is its form: a microsecond beside a megabyte.
type head struct {
	To   string       `json:"to"`             // the description
	Turn uint32       `json:"turn,omitempty"` // of the description, which may have been removed and opened again in this life
	Is   string       `json:"is"`
	Msg  *machine.Msg `json:"msg,omitempty"`
	Name machine.Name `json:"name"`
	Cut  twoslots.Cut `json:"cut"`
	Done twoslots.Cut `json:"done"` // isPart: the newest that the sender knows to be complete
	Part int          `json:"part,omitempty"`
	Size int64        `json:"size,omitempty"` // of the whole image or piece
	Off  int64        `json:"off,omitempty"`
	Sum  uint32       `json:"sum,omitempty"`  // CRC32C of the body
	Base bool         `json:"base,omitempty"` // isPart, isSame: the image is told by that of Done
	Span int64        `json:"span,omitempty"` // to a parity with Base: the longer one's size of the two
	Mine uint32       `json:"mine,omitempty"` // to a parity with Base: CRC32C of the image's block, whose change the body is
	Run  int64        `json:"run,omitempty"`  // isSame: bytes of whole blocks
	Call uint64       `json:"call,omitempty"`
	Meta *meta        `json:"meta,omitempty"` // isEnd
	Text string       `json:"text,omitempty"` // isEnd: why it cannot be had
}

// mostImage bounds an image's size, against heads that were garbled.
const mostImage = 1 << 46

// length is how far the bytes of a part reach.
func (h *head) length() int64 { return max(h.Size, h.Span) }

func (h *head) encode() []byte {
	b, err := json.Marshal(h)
	if err != nil {
		panic(err) // it has no type that could fail
	}
	return b
}

// decode reads the head of a block whose body has such a length.
func decode(b []byte, body int) (*head, error) {
	h := new(head)
	if err := json.Unmarshal(b, h); err != nil {
		return nil, err
	}
	bad := func(what string) (*head, error) { return nil, fmt.Errorf("a block for %q with %s", h.To, what) }
	switch h.Is {
	case isMsg:
		if h.Msg == nil || body != 0 {
			return bad("no message")
		}
		for _, held := range h.Msg.Held {
			if held.Name.Members() == nil {
				return bad("a piece that cannot be")
			}
		}
	case isPart, isPiece, isSame:
		if h.Size < 0 || h.length() > mostImage || h.Off < 0 || h.Off%blockSize != 0 || h.Is != isSame && int64(body) != min(blockSize, h.length()-h.Off) {
			return bad("the wrong length")
		}
		if h.Is == isSame && (!h.Base || body != 0 || h.Run <= 0 || h.Run > h.Size-h.Off || h.Run%blockSize != 0 && h.Off+h.Run != h.Size) {
			return bad("the wrong run")
		}
		if h.Span != 0 && (!h.Base || h.Name.Parity == 0 || h.Is == isPiece) {
			return bad("a span")
		}
		fallthrough
	case isWant:
		members := h.Name.Members()
		if members == nil || h.Part < 0 || h.Part >= len(members) {
			return bad("a piece that cannot be")
		}
	case isEnd:
		if body != 0 || h.Meta == nil && h.Text == "" {
			return bad("nothing")
		}
	default:
		return bad("an unknown kind")
	}
	return h, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// blocks calls f for each block of so many bytes; an empty image is one empty block.
func blocks(size int64, f func(i int, off, n int64) error) error {
	for i, off := 0, int64(0); ; i, off = i+1, off+blockSize {
		if err := f(i, off, min(blockSize, size-off)); err != nil || off+blockSize >= size {
			return err
		}
	}
}
