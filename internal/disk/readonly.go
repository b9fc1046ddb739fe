package disk

import "errors"

var errReadOnly = errors.New("opened for reading only")

// ReadOnly is the file system of the operating system below root, and refuses every change.
// It takes no lock, so that reading files in use never prevents the start of a process.
func ReadOnly(root string) FS { return readOnly{OS(root)} }

type readOnly struct{ FS }

func (f readOnly) Open(name string) (File, error) { return f.OpenRead(name) }

func (readOnly) OpenWrite(string) (File, error) { return nil, errReadOnly }

func (readOnly) Mkdir(string) error { return errReadOnly }

func (readOnly) Create(string) (File, error) { return nil, errReadOnly }

func (readOnly) Rename(string, string) error { return errReadOnly }

func (readOnly) Remove(string) error { return errReadOnly }

func (readOnly) RemoveDir(string) error { return errReadOnly }

func (readOnly) SyncDir(string) error { return errReadOnly }

func (readOnly) Lock(string) (Lock, error) { return noLock{}, nil }

type noLock struct{}

func (noLock) Close() error { return nil }

func (noLock) Check() error { return nil }
