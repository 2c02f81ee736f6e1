package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"
)

const deadline = 90 * time.Second

var failed int

type line struct {
	Client string `json:"client"`
	Step   string `json:"step"`
	Ok     bool   `json:"ok"`
	Known  bool   `json:"known,omitempty"`
	Note   string `json:"note"`
	There  string `json:"there,omitempty"`
}

// step runs a function, which fails by returning an error, and prints the result as one line of JSON.
func step(client, name string, run func() error) {
	err := outcome(run)
	if err != nil {
		failed++
		show(line{Client: client, Step: name, Note: err.Error()})
		return
	}
	show(line{Client: client, Step: name, Ok: true})
}

// known is a step that fails because of the client: with the same fault at the reference server. It counts as failed if the
// fault differs or the step passes.
func known(client, name, reason, says string, here, there func() error) {
	fault := outcome(here)
	note, other := "", error(nil)
	switch {
	case fault == nil:
		note = "passes now, though this was known: " + reason
	case !strings.Contains(fault.Error(), says):
		note = fmt.Sprintf("fails otherwise than known, without %q: %v", says, fault)
	default:
		other = outcome(there)
		if other == nil {
			note = fmt.Sprintf("the other server does not show it: %v", fault)
		} else if !strings.Contains(other.Error(), says) {
			note = fmt.Sprintf("the other server shows another fault, without %q: %v", says, other)
		}
	}
	if note != "" {
		failed++
		show(line{Client: client, Step: name, Note: note})
		return
	}
	show(line{Client: client, Step: name, Known: true, Note: fmt.Sprintf("%s (%v)", reason, fault), There: other.Error()})
}

func show(l line) {
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	if err := out.Encode(l); err != nil {
		os.Exit(1)
	}
}

func outcome(run func() error) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("panic: %v", p)
			}
		}()
		done <- run()
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(deadline):
		return fmt.Errorf("not done after %v", deadline)
	}
}

func equal(found, expected any) error {
	if !reflect.DeepEqual(found, expected) {
		return fmt.Errorf("expected %v (%T), found %v (%T)", expected, expected, found, found)
	}
	return nil
}

func refused(part string, err error) error {
	if err == nil {
		return fmt.Errorf("expected an error with %q, found none", part)
	}
	if !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(part)) {
		return fmt.Errorf("expected an error with %q, found %w", part, err)
	}
	return nil
}
