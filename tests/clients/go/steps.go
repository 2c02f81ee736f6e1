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
}

// step runs a function, which fails by an error, and prints what came of it as one line of JSON.
func step(client, name string, run func() error) {
	err := outcome(run)
	if err != nil {
		failed++
		show(line{Client: client, Step: name, Note: err.Error()})
		return
	}
	show(line{Client: client, Step: name, Ok: true})
}

// known is a step that fails because of the client, whatever the server does; it counts as failed once it passes.
func known(client, name, reason string, run func() error) {
	err := outcome(run)
	if err == nil {
		failed++
		show(line{Client: client, Step: name, Note: "passes now, though this was known: " + reason})
		return
	}
	show(line{Client: client, Step: name, Known: true, Note: fmt.Sprintf("%s (%v)", reason, err)})
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
