package command

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/adminclient"
	"github.com/docket-export/docket/exporter/queue/inspect"
)

// AdminFlags say which running docket a command asks.
type AdminFlags struct {
	ConfigFlags
	Admin string // its address; empty: over the socket of the configured queue
}

// AddAddress adds the flag for a docket whose socket is out of reach. Over its address docket
// answers only public requests.
func (f *AdminFlags) AddAddress(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Admin, "admin", "", "address of the admin endpoint of a running docket, instead of its socket")
}

// Check refuses flags that contradict each other.
func (f *AdminFlags) Check() error {
	if f.Admin != "" && f.Data != "" {
		return errors.New("--admin and --data exclude each other: both say where docket is")
	}
	return nil
}

// Client returns a client of the docket at --admin. Without --admin it returns a client of
// the docket on the configured queue, over its admin socket or else its admin.address. It
// ignores mistakes elsewhere in the configuration file.
func (f *AdminFlags) Client() (*adminclient.Client, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	if f.Admin != "" {
		return adminclient.ForAddress(f.Admin), nil
	}
	directory, admin, err := f.whereabouts()
	if err != nil {
		return nil, err
	}
	return adminclient.ForEither(directory, admin.Address), nil
}

// Find returns a client as Client does. While no docket works on the queue, it returns the
// queue itself, which the caller must close. A directory that is not empty names the queue
// to use instead of the configured one.
func (f *AdminFlags) Find(ctx context.Context, directory string, open inspect.Opener) (*adminclient.Client, *inspect.Queue, error) {
	if f.Admin != "" {
		client, err := f.Client()
		return client, nil, err
	}
	err := f.Check()
	if directory == "" && err == nil {
		directory, _, err = f.whereabouts()
	}
	if err != nil {
		return nil, nil, err
	}
	client, o, err := adminclient.Find(ctx, directory, open)
	if errors.Is(err, inspect.ErrNoQueue) {
		return nil, nil, Misconfigured("%w", err)
	}
	return client, o, Failed(err)
}

func (f *AdminFlags) whereabouts() (directory string, admin exporter.AdminConfig, err error) {
	if f.File != "" && f.Data == "" {
		text, err := ReadConfig(f.File)
		if err != nil {
			return "", admin, err
		}
		if directory, admin, ok := exporter.Whereabouts(text); ok {
			return directory, admin, nil
		}
	}
	cfg, err := f.Load()
	if err != nil {
		return "", admin, err
	}
	return cfg.Queue.Directory, cfg.Admin, nil
}
