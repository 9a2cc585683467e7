package image

import "golang.org/x/sys/unix"

// Fits returns ErrTooLarge if the section has more bytes than this machine has memory. A block of zeros takes no room in an
// image, so a forged one of a few bytes can announce as many as it likes, and a program that makes room for them ends.
// Ask before memory is made for a section.
func (s Section) Fits() error {
	var m unix.Sysinfo_t
	if err := unix.Sysinfo(&m); err != nil {
		return nil // nothing is known
	}
	if all := (uint64(m.Totalram) + uint64(m.Totalswap)) * uint64(m.Unit); s.Size > all {
		return fail(ErrTooLarge, "%d bytes, this machine has %d of memory", s.Size, all)
	}
	return nil
}

// Bytes reads a whole section into new memory. Errors: as of ReadSection, ErrTooLarge as of Fits.
func (r *Reader) Bytes(kind, name string) ([]byte, error) {
	s, ok := r.Lookup(kind, name)
	if !ok {
		return nil, r.wrap(name, fail(ErrNoSection, "of kind %q", kind))
	}
	if err := s.Fits(); err != nil {
		return nil, r.wrap(name, err)
	}
	p := make([]byte, s.Size)
	return p, r.ReadSection(kind, name, p)
}
