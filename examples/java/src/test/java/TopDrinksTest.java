import static java.util.concurrent.TimeUnit.DAYS;
import static org.junit.Assert.assertEquals;

import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.Semaphore;
import org.apache.beam.sdk.PipelineResult;
import org.apache.beam.sdk.PipelineResult.State;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

/** Needs both services of docs/java.md; elsewhere {@code -Dexpansion=HOST:PORT -DjobEndpoint=HOST:PORT}. */
public class TopDrinksTest {
  @Rule public TemporaryFolder folder = new TemporaryFolder();

  @Test(timeout = 300_000) // a job whose service ended may wait forever
  public void ranksByUsers() throws Exception {
    Path orders = folder.getRoot().toPath().resolve("orders.csv"), top = orders.resolveSibling("top");
    // No two drinks of as many users: a tie has either order.
    Files.writeString(orders, "ana,tea\nana,cake\nbo,tea\nbo,tea\nbo,cake\ncy,tea\ndi,scone\n");
    // An epsilon at which the noise changes no order: only of rows that are made up.
    var parameters = "{\"k\": 3, \"epsilon\": 1e5, \"domain\": [\"tea\", \"cake\", \"scone\"]}";
    assertEquals(State.DONE, TopDrinks.pipeline(words(orders, top, parameters)).run().waitUntilFinish());
    List<String> lines = Files.readAllLines(Path.of(top + "-00000-of-00001"));
    assertEquals(List.of("1,tea", "2,cake", "3,scone"), lines.stream().sorted().toList());
  }

  @Test(timeout = 300_000)
  public void ranksEachWeek() throws Exception {
    Path orders = folder.getRoot().toPath().resolve("weekly.csv"), top = orders.resolveSibling("weekly");
    Files.writeString(
        orders,
        """
        ana,tea,2026-03-02T00:00:00Z,2
        ana,tea,2026-03-08T23:59:59Z,3.5
        bo,tea,2026-03-03T12:00:00Z,1
        bo,cake,2026-03-03T12:00:00Z,90
        cy,cake,2026-03-09T00:00:00Z,4
        cy,cake,never,4
        cy,cake,999999999-01-01T00:00:00Z,4
        """);
    var each =
        "\"k\": 2, \"epsilon\": 1e5, \"publish_counts\": 1e5, \"domain\": [\"tea\", \"cake\"], \"period\":"
            + " {\"from\": \"2026-03-02\", \"to\": \"2026-03-16\", \"window\": \"7d\"}";
    var parameters =
        ("{\"popular\": {%s}, \"spending\": {%s, \"value\": \"price\", \"max_value\": 20, \"value_resolution\": 0.5}}").formatted(each, each);
    assertEquals(State.DONE, WeeklyDrinks.pipeline(words(orders, top, parameters)).run().waitUntilFinish());
    String first = "20260302T000000Z--20260309T000000Z", second = "20260309T000000Z--20260316T000000Z";
    assertEquals(
        List.of(first + ",1,tea,2", first + ",2,cake,1", second + ",1,cake,1", second + ",2,tea,0"),
        counts(Path.of(top + "-popular-00000-of-00001")));
    assertEquals(
        List.of(first + ",1,cake,20.0", first + ",2,tea,6.5", second + ",1,cake,4.0", second + ",2,tea,0.0"),
        counts(Path.of(top + "-spending-00000-of-00001")));
  }

  @Test(timeout = 60_000)
  public void cancelsAJobWhoseServiceHasEnded() throws Exception {
    PipelineResult endless =
        (PipelineResult)
            Proxy.newProxyInstance(
                getClass().getClassLoader(),
                new Class<?>[] {PipelineResult.class},
                (job, method, given) ->
                    method.getName().equals("cancel") ? State.CANCELLED : new Semaphore(0).tryAcquire(1, DAYS));
    assertEquals(State.CANCELLED, TopDrinks.waitFor(endless, "localhost:1"));
  }

  /** Window, rank, item and count of each line, in order. */
  private static List<String> counts(Path file) throws Exception {
    return Files.readAllLines(file).stream().map(line -> line.replaceAll(",[^,]*,[^,]*$", "")).sorted().toList();
  }

  private static String[] words(Path orders, Path top, String parameters) {
    return new String[] {
      "--input=" + orders,
      "--output=" + top,
      "--parameters=" + parameters,
      "--expansion=" + System.getProperty("expansion", "localhost:8097"),
      "--runner=PortableRunner",
      "--jobEndpoint=" + System.getProperty("jobEndpoint", "localhost:8099")
    };
  }
}
