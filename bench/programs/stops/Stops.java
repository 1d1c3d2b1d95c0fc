/** One thread allocates, so that the collector stops the others; one is in a counted loop, which asks for no stop. */
public class Stops {
    static int sink;

    static int counted(int[] values) {
        int sum = 0;
        for (int round = 0; round < 400; round++) {
            for (int i = 0; i < values.length; i++) {
                sum += values[i] * round;
            }
        }
        return sum;
    }

    public static void main(String[] words) throws InterruptedException {
        long until = System.nanoTime() + 4_000_000_000L;
        Thread loop = new Thread(() -> {
            int[] values = new int[100_000];
            while (System.nanoTime() < until) {
                sink += counted(values);
            }
        }, "counted-loop");
        loop.start();
        Object[] keep = new Object[64];
        for (int i = 0; System.nanoTime() < until; i++) {
            keep[i & 63] = new byte[16_384];
        }
        loop.join();
    }
}
