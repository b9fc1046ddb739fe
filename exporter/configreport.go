package exporter

import (
	"sync"
	"time"
)

// ConfigStatus describes the configuration in force.
type ConfigStatus struct {
	Generation int    `json:"generation"` // configurations that took effect since the start
	State      State  `json:"state"`      // Error: the file is invalid; Degraded: a part of it waits for a restart
	LastError  string `json:"lastError"`
	File       string `json:"file,omitempty"`   // empty: the built-in configuration
	Stored     string `json:"stored,omitempty"` // where the last one that took effect is kept
	// Loaded is when the one in force took effect.
	Loaded time.Time `json:"loaded"`
}

// ConfigReport is what /status and the metrics say about the configuration. Whatever
// loads configurations reports each of them here. Safe for concurrent use.
type ConfigReport struct {
	mu     sync.Mutex
	status ConfigStatus // guarded by mu
	// Attempts after the first configuration took effect; guarded by mu.
	applied, failed uint64
}

// NewConfigReport returns the report on a configuration that has not taken effect yet.
// file and stored may be empty; see ConfigStatus.
func NewConfigReport(file, stored string) *ConfigReport {
	return &ConfigReport{status: ConfigStatus{File: file, Stored: stored, State: Active}}
}

// Applied says that a configuration took effect at that time. waiting names the keys that
// take effect only at the next start; empty: no key waits.
func (r *ConfigReport) Applied(at time.Time, waiting string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.Generation > 0 {
		r.applied++
	}
	r.status.Generation++
	r.status.Loaded = at
	r.wait(waiting)
}

// Rest changes which part of the last applied configuration still waits; see waiting in
// Applied.
func (r *ConfigReport) Rest(waiting string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wait(waiting)
}

// wait shows what does not take effect yet. Callers hold mu.
func (r *ConfigReport) wait(waiting string) {
	r.status.State, r.status.LastError = Active, waiting
	if waiting != "" {
		r.status.State = Degraded
	}
}

// Failed says that the file is invalid, and why. The last applied configuration stays
// in force.
func (r *ConfigReport) Failed(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed++
	r.status.State, r.status.LastError = Error, reason
}

// Status returns what is known now.
func (r *ConfigReport) Status() ConfigStatus {
	s, _, _ := r.snapshot()
	return s
}

func (r *ConfigReport) snapshot() (s ConfigStatus, applied, failed uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status, r.applied, r.failed
}
