package virtual

import (
	"bytes"
	"encoding/gob"
	"fmt"
)

// MarshalBinary returns what another process needs to go on, of a machine that is Quiet. The bytes of regions are the program's to keep.
func (m *Machine) MarshalBinary() ([]byte, error) {
	if m.phase != quiescing {
		return nil, fmt.Errorf("rdma: an image without Quiesce")
	}
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(&m.state)
	return b.Bytes(), err
}

// UnmarshalBinary restores the machine. Restart follows.
func (m *Machine) UnmarshalBinary(data []byte) error {
	*m = *New(0)
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&m.state); err != nil {
		return fmt.Errorf("rdma: image: %w", err)
	}
	m.phase = quiescing
	return nil
}
