import static org.junit.Assert.assertEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
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
    var pipeline =
        TopDrinks.pipeline(
            "--input=" + orders,
            "--output=" + top,
            // An epsilon at which the noise changes no order: only of rows that are made up.
            "--parameters={\"k\": 3, \"epsilon\": 1e5, \"domain\": [\"tea\", \"cake\", \"scone\"]}",
            "--expansion=" + System.getProperty("expansion", "localhost:8097"),
            "--runner=PortableRunner",
            "--jobEndpoint=" + System.getProperty("jobEndpoint", "localhost:8099"));
    assertEquals(State.DONE, pipeline.run().waitUntilFinish());
    List<String> lines = Files.readAllLines(Path.of(top + "-00000-of-00001"));
    assertEquals(List.of("1,tea", "2,cake", "3,scone"), lines.stream().sorted().toList());
  }
}
