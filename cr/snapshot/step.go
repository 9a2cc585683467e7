package snapshot

// step is called after each step of what must be whole after a crash at any of them. It is nil except in tests, which end there.
type step func(done string) error

func (s step) did(name string) error {
	if s == nil {
		return nil
	}
	return s(name)
}

// named is a step with its name.
type named struct {
	name string
	do   func() error
}

// through does steps one after the other, up to the first that fails.
func (s step) through(all []named) error {
	for _, a := range all {
		if err := a.do(); err != nil {
			return err
		}
		if err := s.did(a.name); err != nil {
			return err
		}
	}
	return nil
}
