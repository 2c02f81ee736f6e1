package clients;

import java.util.Objects;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Runs named steps, each with a deadline, and prints what came of each as one line of JSON. */
final class Steps {
  interface Step {
    void run() throws Exception;
  }

  static final class Failed extends Exception {
    Failed(String message) {
      super(message);
    }
  }

  private static final int SECONDS = 90;

  private final ExecutorService threads =
      Executors.newCachedThreadPool(
          runnable -> {
            Thread thread = new Thread(runnable);
            thread.setDaemon(true);
            return thread;
          });
  private int failed;

  void step(String name, Step step) {
    String fault = outcome(step);
    if (fault != null) {
      failed++;
    }
    line(name, fault == null, fault == null ? "" : fault, null);
  }

  /**
   * A step that fails because of the driver: with the same fault at the reference server. It counts as failed if the fault
   * differs or the step passes.
   */
  void known(String name, String reason, String says, Step here, Step there) {
    String fault = outcome(here);
    String other = null;
    String note;
    if (fault == null) {
      note = "passes now, though this was known: " + reason;
    } else if (!fault.contains(says)) {
      note = "fails otherwise than known, without '" + says + "': " + fault;
    } else {
      other = outcome(there);
      if (other == null) {
        note = "the other server does not show it: " + fault;
      } else if (!other.contains(says)) {
        note = "the other server shows another fault, without '" + says + "': " + other;
      } else {
        line(name, false, reason + " (" + fault + ")", other);
        return;
      }
    }
    failed++;
    line(name, false, note, null);
  }

  boolean anyFailed() {
    return failed > 0;
  }

  private String outcome(Step step) {
    var running =
        threads.submit(
            () -> {
              step.run();
              return null;
            });
    try {
      running.get(SECONDS, TimeUnit.SECONDS);
      return null;
    } catch (TimeoutException e) {
      running.cancel(true);
      return "not done after " + SECONDS + " s";
    } catch (InterruptedException e) {
      return "interrupted";
    } catch (ExecutionException e) {
      Throwable cause = e.getCause();
      if (cause instanceof Failed) {
        return cause.getMessage();
      }
      StringBuilder text = new StringBuilder(cause.toString());
      for (StackTraceElement frame : cause.getStackTrace()) {
        if (frame.getClassName().startsWith("clients.")) {
          text.append(" at ").append(frame);
          break;
        }
      }
      for (Throwable inner = cause.getCause(); inner != null; inner = inner.getCause()) {
        text.append("; because of ").append(inner);
      }
      return text.toString();
    }
  }

  private static void line(String name, boolean ok, String note, String there) {
    System.out.println(
        "{\"client\":\"jdbc\",\"step\":" + quoted(name) + ",\"ok\":" + ok
            + (there == null ? "" : ",\"known\":true,\"there\":" + quoted(there)) + ",\"note\":" + quoted(note) + "}");
    System.out.flush();
  }

  private static String quoted(String text) {
    StringBuilder out = new StringBuilder("\"");
    for (char c : text.toCharArray()) {
      if (c == '"' || c == '\\') {
        out.append('\\').append(c);
      } else if (c < 0x20) {
        out.append(String.format("\\u%04x", (int) c));
      } else {
        out.append(c);
      }
    }
    return out.append('"').toString();
  }

  static void equal(Object expected, Object found, String what) throws Failed {
    if (!Objects.deepEquals(expected, found)) {
      throw new Failed(what + ": expected " + shown(expected) + ", found " + shown(found));
    }
  }

  static void equal(Object expected, Object found) throws Failed {
    equal(expected, found, "value");
  }

  static void that(boolean holds, String what) throws Failed {
    if (!holds) {
      throw new Failed("does not hold: " + what);
    }
  }

  /** The message of the exception that the step ends with, which has to hold a text. */
  static String refused(String part, Step step) throws Exception {
    try {
      step.run();
    } catch (Exception | LinkageError e) {
      StringBuilder text = new StringBuilder();
      for (Throwable inner = e; inner != null; inner = inner.getCause()) {
        text.append(inner.getMessage()).append("; ");
      }
      if (!text.toString().toLowerCase().contains(part.toLowerCase())) {
        throw new Failed("expected an error with '" + part + "', found " + text);
      }
      return text.toString();
    }
    throw new Failed("expected an error with '" + part + "', found none");
  }

  private static String shown(Object value) {
    if (value == null) {
      return "null";
    }
    if (value instanceof byte[] bytes) {
      return java.util.Arrays.toString(bytes);
    }
    if (value instanceof Object[] array) {
      return java.util.Arrays.deepToString(array);
    }
    return value + " (" + value.getClass().getSimpleName() + ")";
  }
}
