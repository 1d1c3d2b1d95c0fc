-- Two threads that allocate much that lives: the collector of two capabilities stops both.
import Control.Concurrent
import Control.Monad (forM, forM_)
import qualified Data.Map.Strict as Map

grown :: Int -> Int
grown seed = Map.size (foldr (\key -> Map.insert ((key * seed) `mod` 100003) key) Map.empty [1 .. 150000])

main :: IO ()
main = do
  boxes <- forM [7, 11] $ \seed -> do
    box <- newEmptyMVar
    _ <- forkIO $ putMVar box $! sum [grown (seed + turn) | turn <- [1 .. 5]]
    return box
  forM_ boxes $ \box -> takeMVar box >>= print
