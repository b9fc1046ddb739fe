package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/docket-export/docket/bench/process"
	"github.com/docket-export/docket/bench/trial"
)

// profileWindow is how long docket's processor is sampled at a time: the shortest that
// can be asked for. A profile is there only when its time is over, so a load is covered
// by one window after another. In what is left of the last one docket is at rest, which
// adds no samples.
const profileWindow = time.Second

// windowsOf is where windows of an experiment are kept until mergeProfiles.
func (l *lab) windowsOf(experiment string) string {
	return filepath.Join(l.Short, "profiles", experiment)
}

// profile samples docket's processor until finish is called, which returns up to a
// profileWindow later. Call it around a load, and look at clocks inside. It does nothing
// unless profiles are asked for, of docket as users get it; what goes wrong is
// printed, and fails mergeProfiles when there is no window at all.
func (s *sidecar) profile() (finish func()) {
	if !s.profiled {
		return func() {}
	}
	loaded, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.takeWindows(loaded) }()
	return func() {
		close(loaded)
		if err := <-ended; err != nil {
			fmt.Fprintln(os.Stderr, "bench: profile of docket:", err)
		}
	}
}

// takeWindows takes one window after another, the last of which begins before loaded is
// closed.
func (s *sidecar) takeWindows(loaded <-chan struct{}) error {
	dir := s.lab.windowsOf(s.lab.experiment)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for {
		if err := s.takeWindow(dir); err != nil {
			return err
		}
		select {
		case <-loaded:
			return nil
		default:
		}
	}
}

func (s *sidecar) takeWindow(dir string) error {
	window, err := s.get(s.lab.Context(), fmt.Sprintf("/debug/pprof/profile?seconds=%d", int(profileWindow.Seconds())))
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "")
	if err != nil {
		return err
	}
	_, err = f.Write(window)
	return errors.Join(err, f.Close())
}

// mergeProfiles makes one profile of all windows of each experiment that has any:
// dir/EXPERIMENT.pprof. It leaves their form to the go command, which is here: it has
// built docket.
func (l *lab) mergeProfiles(chosen []experiment) {
	if l.profiles == "" {
		return
	}
	trial.Check(os.MkdirAll(l.profiles, 0o755))
	made := 0
	for _, e := range chosen {
		windows := trial.Must(filepath.Glob(filepath.Join(l.windowsOf(e.Name), "*")))
		if len(windows) == 0 {
			continue
		}
		file := filepath.Join(l.profiles, e.Name+".pprof")
		process.Output(l.T, "", "go", append([]string{"tool", "pprof", "-proto", "-symbolize=none", "-output=" + file}, windows...)...)
		made++
	}
	if made == 0 {
		trial.Check(errors.New("-profile: no experiment that was run has a profile: see -help for those that do"))
	}
}
